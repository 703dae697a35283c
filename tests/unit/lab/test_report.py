"""The table and the picture."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from chatmemory.llm.protocol import Usage
from memory.lab.report import COLUMNS, as_rich, draw, note_on, rows_of
from tests.unit.lab.makers import UNPRICED, outcome_of, run_of, turn

RUN = run_of(
    turn(100, prompt=2000),
    turn(2990, prompt=2100, prefix=1300, before=1, calls=(Usage(6000, 0, 500),)),
    named=4,
    held=3,
)


def test_a_row_a_policy_and_one_for_sending_everything() -> None:
    policy, everything = rows_of(outcome_of(RUN))
    assert policy[:8] == ["chunked", "1,545", "2,990", "0 %", "100 %", "31.7 %", "4,100", "1"]
    assert (policy[8], *policy[10:]) == ("0.0141", "4", "75.0 %")
    assert (everything[0], everything[9]) == ("everything", "1.00")


@pytest.mark.parametrize(("held", "shown"), [(0, "0 %"), (1, "0.1 %"), (9999, "99.9 %"), (10000, "100 %")])
def test_percentages_round_never_to_0_or_100(held: int, shown: str) -> None:
    assert rows_of(outcome_of(run_of(turn(), named=10000, held=held)))[0][-1] == shown


def test_an_unknown_price_is_said() -> None:
    outcome = outcome_of(RUN, replies=UNPRICED)
    assert rows_of(outcome)[0][8:10] == ["?", "?"]
    assert note_on(outcome).endswith("?: no price is known of mystery.")
    assert "?" not in note_on(outcome_of(RUN))


def test_each_column_is_explained() -> None:
    screen = StringIO()
    Console(width=110, file=screen).print(as_rich(outcome_of(RUN)))
    for name, meaning in COLUMNS.items():
        assert name in screen.getvalue()
        assert meaning.split()[-1] in screen.getvalue()


@pytest.mark.exhaustive
def test_the_picture_of_the_same_outcome_is_the_same_file(tmp_path: Path) -> None:
    drawn = []
    for name in ("a.svg", "b.SVG"):
        draw(outcome_of(RUN, replies=UNPRICED), tmp_path / name)
        drawn.append((tmp_path / name).read_text())
    assert drawn[0] == drawn[1]
    assert "no price is known" in drawn[0]
