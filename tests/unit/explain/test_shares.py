"""How the turns of a chat are covered by a prompt, as a bar."""

import pytest

from memory.context.plan import Merged, Plan, Shown, TurnSpan
from memory.explain.reasons import Coverage, coverage_of

LINES = (TurnSpan(5, 6), TurnSpan(7, 8))
VERBATIM = (Shown(9, 10), Shown(11, 12, user_clip=40), Shown(13, 14))


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        # nothing was said yet
        (Plan(budget=3000), Coverage(4, 0, 0, 0)),
        # all turns are shown as text or line; a clipped turn counts as verbatim
        (Plan(budget=3000, lines=LINES, verbatim=VERBATIM), Coverage(4, 3, 2, 0)),
        # two turns behind a merged line count as missing
        (Plan(budget=3000, lines=LINES, merged=Merged(1, 4, 2), unrepresented=2), Coverage(4, 0, 2, 2)),
        # a turn whose line is empty counts as missing, too
        (Plan(budget=3000, lines=LINES, merged=Merged(1, 4, 2), unrepresented=3), Coverage(4, 0, 1, 3)),
        # memory is switched off: older turns are only counted
        (Plan(budget=3000, verbatim=VERBATIM, unrepresented=50), Coverage(4, 3, 0, 50)),
    ],
)
def test_it_counts_every_turn_once(plan: Plan, expected: Coverage) -> None:
    assert coverage_of(plan, 4) == expected


def test_the_bar_runs_from_oldest_to_newest_and_is_full() -> None:
    parts = Coverage(folded=6, verbatim=2, lines=1, gap=1).parts
    assert [(part.kind, part.start, part.width) for part in parts] == [
        ("folded", 0, 60),
        ("gap", 60, 10),
        ("lines", 70, 10),
        ("verbatim", 80, 20),
    ]


def test_an_empty_chat_has_an_empty_bar() -> None:
    assert [part.width for part in Coverage(0, 0, 0, 0).parts] == [0, 0, 0, 0]
