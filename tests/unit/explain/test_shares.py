"""How the turns of a chat are covered by a prompt, as a bar."""

import pytest

from memory.context.plan import Merged, Plan, Shown, TurnSpan
from memory.explain.reasons import coverage_of

LINES = (TurnSpan(5, 6), TurnSpan(7, 8))
VERBATIM = (Shown(9, 10), Shown(11, 12, user_clip=40), Shown(13, 14))


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        # nothing was said yet
        (Plan(budget=3000), (4, 0, 0, 0)),
        # all turns are shown as text or line; a clipped turn counts as verbatim
        (Plan(budget=3000, lines=LINES, verbatim=VERBATIM), (4, 0, 2, 3)),
        # two turns behind a merged line count as missing
        (Plan(budget=3000, lines=LINES, merged=Merged(1, 4, 2), unrepresented=2), (4, 2, 2, 0)),
        # a turn whose line is empty counts as missing, too
        (Plan(budget=3000, lines=LINES, merged=Merged(1, 4, 2), unrepresented=3), (4, 3, 1, 0)),
        # memory is switched off: older turns are only counted
        (Plan(budget=3000, verbatim=VERBATIM, unrepresented=50), (4, 50, 0, 3)),
    ],
)
def test_it_counts_every_turn_once(plan: Plan, expected: tuple[int, ...]) -> None:
    assert tuple(part.count for part in coverage_of(plan, 4)) == expected


def test_the_bar_runs_from_oldest_to_newest_and_is_full() -> None:
    merged = Merged(1, 2, 1)
    plan = Plan(budget=3000, lines=LINES[:1], merged=merged, verbatim=VERBATIM[:2], unrepresented=1)
    assert [(part.kind, part.start, part.width) for part in coverage_of(plan, 6)] == [
        ("folded", 0, 60),
        ("gap", 60, 10),
        ("lines", 70, 10),
        ("verbatim", 80, 20),
    ]
