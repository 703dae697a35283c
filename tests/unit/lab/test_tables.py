"""The content of the tables, and that each column is explained."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from io import StringIO

import pytest
from rich.console import Console

from chatmemory.llm.protocol import Variant
from memory.lab.measures import SummarizerCall
from memory.lab.outcome import Outcome, outcome_to_json
from memory.lab.retention import RetentionTally
from memory.lab.tables import Sheet, as_markdown, as_rich, legend_markdown, note_on, recall_sheet, sheets_of
from tests.unit.lab.makers import MODELS, TALK, nothing_kept, outcome_of, run_of, turn

RUN = run_of(
    turn(100, prompt=2000),
    turn(2990, prompt=2100, prefix=1300, before=1, folds=1),
    calls=(SummarizerCall(1, 6000, 500),),
    spans={**nothing_kept(), 1: RetentionTally(1000, 999, 500)},
)


def titled(outcome: Outcome, title: str) -> Sheet:
    return next(sheet for sheet in sheets_of(outcome) if sheet.title.startswith(title))


def test_what_the_model_is_sent() -> None:
    sent = titled(outcome_of(RUN), "What the model is sent")
    assert sent.rows == (("chunked", "2", "1,545", "2,990", "2,990", "0 %", "31.7 %", "100 %"),)


def test_what_the_summarizer_does() -> None:
    does = titled(outcome_of(RUN), "What the summarizer does")
    assert does.rows == (("chunked", "1", "6,000", "500", "1", "0"),)


def test_what_it_costs_beside_what_it_is_compared_with() -> None:
    # Two replies of 10 tokens, 1280 of 4100 tokens cached; a fold of 6000 tokens in and 500 out; at $1, $0.10 and $10
    # per million.
    rows = titled(outcome_of(RUN), "What it costs").rows
    assert rows[0][:7] == ("chunked", "4,100", "1,280", "20", "0.0031", "0.0110", "0.0141")
    assert [row[0] for row in rows] == ["chunked", "everything", "chained"]
    assert [row[-2:] for row in rows[1:]] == [("1.00", "1.00")] * 2  # no tool messages, so both are the same


def test_what_is_kept() -> None:
    kept = titled(outcome_of(RUN), "What is kept")
    assert [row[:3] for row in kept.rows] == [("chunked", "spans", "99.9 %"), ("chunked", "facts", "–")]
    assert dict(zip(kept.header, kept.rows[0], strict=True))["exact 1"] == "50.0 %"


def test_without_annotated_facts_there_is_nothing_to_say_of_them() -> None:
    sheets = sheets_of(outcome_of(RUN, talk=replace(TALK, facts=())))
    assert [sheet.title for sheet in sheets][-1] == "What is kept"
    assert [row[1] for row in sheets[-1].rows] == ["spans"]


@pytest.mark.parametrize(("kept", "shown"), [(0, "0 %"), (1, "0.1 %"), (9999, "99.9 %"), (10000, "100 %")])
def test_almost_none_is_not_none_and_almost_all_is_not_all(kept: int, shown: str) -> None:
    run = run_of(turn(), spans={**nothing_kept(), 1: RetentionTally(10000, kept, 0)})
    assert titled(outcome_of(run), "What is kept").rows[0][2] == shown


def test_an_unknown_price_is_said() -> None:
    unknown = replace(MODELS, replies=Variant("arco", "mystery"))
    outcome = outcome_of(RUN, models=unknown)
    assert titled(outcome, "What it costs").rows[0][4:] == ("?", "0.0110", "?", "?", "?")
    assert note_on(outcome).endswith("?: no price is known of mystery.")
    assert "?" not in note_on(outcome_of(RUN))


def test_it_says_who_summarized() -> None:
    assert "small summarized" in note_on(outcome_of(RUN))
    assert "the built-in model summarized" in note_on(
        outcome_of(RUN, models=replace(MODELS, is_offline=True))
    )


def test_recall_is_told_by_policy_and_mode() -> None:
    found = recall_sheet({mode: outcome_of(RUN) for mode in ("off", "auto")})
    assert [row[:2] for row in found.rows] == [("chunked", "off"), ("chunked", "auto")]
    assert len(found.header) == len(found.rows[0]) == 8


def test_each_column_is_explained_in_both_forms() -> None:
    for sheet in sheets_of(outcome_of(RUN)):
        screen = StringIO()
        Console(width=110, file=screen).print(as_rich(sheet))
        drawn, written = " ".join(screen.getvalue().split()), as_markdown(sheet) + legend_markdown(sheet)
        for name, meaning in sheet.legend:
            assert meaning
            assert name.split()[0] in drawn
            assert meaning.split()[-1] in drawn
            assert name in written
            assert meaning in written
        lines = as_markdown(sheet).splitlines()
        assert {line.count("|") for line in lines} == {len(sheet.header) + 1}


def test_a_part_is_of_those_talks_alone() -> None:
    other = replace(RUN, turns=(turn(7),))
    whole = Outcome((TALK, replace(TALK, name="B")), {"chunked": [RUN, other]}, MODELS)
    part = whole.part([1])
    assert [talk.name for talk in part.talks] == ["B"]
    assert part.rows[0].summary.memory_max == 7


def test_as_json_it_says_all_of_it() -> None:
    found = json.loads(json.dumps(outcome_to_json(outcome_of(RUN))))
    (policy,) = found["policies"]
    assert policy["memory_tokens"] == {"mean": 1545.0, "p95": 2990, "max": 2990}
    assert policy["summarizer"] == {"calls": 1, "input_tokens": 6000, "output_tokens": 500}
    assert policy["bill"]["usd"] == float(Decimal("0.014148"))
    assert policy["runs"][0]["turns"][1]["folds"] == 1
    assert found["models"]["summarizer"] == {
        "model": "small",
        "price": {"input": 1.0, "cached": 0.1, "output": 10.0},
        "built_in": False,
    }
    assert found["talks"] == [{"name": "A talk", "turns": 2, "facts": 1}]
    assert set(found) == {"models", "talks", "policies", "everything", "previous_response_id", "quality"}
