"""Where the turns of a chat stand, as a bar."""

from __future__ import annotations

import pytest

from memory.context.plan import Merged, Plan, Shown, TurnSpan
from memory.explain.coverage import Coverage, coverage_of

LINES = (TurnSpan(5, 6), TurnSpan(7, 8))
VERBATIM = (Shown(9, 10), Shown(11, 12, user_clip=40), Shown(13, 14))


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        # nothing said yet
        (Plan(budget=3000), Coverage(4, 0, 0, 0)),
        # all in text or line; a clipped turn is verbatim all the same
        (Plan(budget=3000, lines=LINES, verbatim=VERBATIM), Coverage(4, 3, 2, 0)),
        # two turns behind a merged line are a gap
        (Plan(budget=3000, lines=LINES, merged=Merged(1, 4, 2), unrepresented=2), Coverage(4, 0, 2, 2)),
        # a turn whose line is empty is a gap, too
        (Plan(budget=3000, lines=LINES, merged=Merged(1, 4, 2), unrepresented=3), Coverage(4, 0, 1, 3)),
        # memory switched off: older turns are merely counted
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
