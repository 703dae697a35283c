"""The place of each turn of a chat, according to a plan, the fold's cursor and the revisions in use."""

from dataclasses import replace

import pytest

from memory.context.plan import Merged, Plan, Section, Shown, TurnSpan
from memory.explain.reasons import budget_of, coverage_of, explain
from memory.explain.timeline import Fold, Mark, Place, TurnPlaces, lineage
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.recall.ranking import Quote
from tests.unit.context.makers import make_turn, plan_of, turn_of

TURNS = [turn_of(number, 200) for number in range(12)]
"""Messages 1 to 24."""


def fold(version: int, parent: int | None, first: int = 1, last: int = 2, kind: str = "fold") -> Fold:
    return Fold(70 + version, version, parent, kind, first, last, turns=1)


def marks(standing: TurnPlaces) -> list[Place]:
    return [standing.of(turn).place for turn in TURNS]


# Places


def test_every_turn_has_one_place() -> None:
    plan = Plan(
        budget=900,
        merged=Merged(5, 8, 2),
        lines=(TurnSpan(9, 10), TurnSpan(11, 12)),
        verbatim=(*(Shown(seq, seq + 1) for seq in range(13, 23, 2)), Shown(23, 24, assistant_clip=90)),
    )
    standing = TurnPlaces(plan, folded_through=4, folds=(fold(1, None, 1, 4),))
    expected = ["folded"] * 2 + ["recall"] * 2 + ["line"] * 2 + ["verbatim"] * 6
    assert marks(standing) == expected
    assert standing.of(TURNS[0]) == Mark("folded", fold=fold(1, None, 1, 4))
    assert standing.of(TURNS[2]) == Mark("recall")
    assert standing.of(TURNS[-1]) == Mark("verbatim", clipped=True)
    assert standing.of(TURNS[-2]).clipped is False


@pytest.mark.parametrize("budget", [0, 300, 900, 3000])
def test_marks_follow_the_plan_that_is_really_made(budget: int) -> None:
    plan = plan_of(TURNS, MemoryLimits(prompt_budget=budget))
    found = marks(TurnPlaces(plan))
    assert found.count("verbatim") == len(plan.verbatim)
    assert found.count("line") == len(plan.lines)
    assert found.count("recall") == plan.unrepresented


FREE = Plan(budget=900)
WITH_LINE = replace(FREE, lines=(TurnSpan(7, 8),))
LAST_SHOWN = replace(FREE, verbatim=(Shown(23, 24),))


@pytest.mark.parametrize(
    ("places", "turn", "place"),
    [
        pytest.param(TurnPlaces(LAST_SHOWN, pending_seq=23), TURNS[-1], "waiting", id="still running"),
        pytest.param(TurnPlaces(LAST_SHOWN, 24, pending_seq=23), TURNS[-1], "waiting", id="still running, and folded"),
        pytest.param(TurnPlaces(FREE, 100), make_turn(3, ""), "nothing", id="folded without text"),
        pytest.param(TurnPlaces(WITH_LINE), make_turn(3, ""), "nothing", id="a line without text"),
        pytest.param(TurnPlaces(WITH_LINE), replace(TURNS[3], line=""), "recall", id="a line that was never made"),
        pytest.param(TurnPlaces(FREE, 4), TURNS[0], "folded", id="folded by a revision that is gone"),
    ],
)
def test_turn_of_an_unusual_kind_has_its_place(places: TurnPlaces, turn: Turn, place: Place) -> None:
    assert places.of(turn) == Mark(place)


# Revisions


RESTORED = [fold(1, None), fold(2, 1), fold(3, 2), fold(4, 3, kind="rebuild"), fold(5, 4), fold(6, 2)]
"""A rebuild as version 4; version 6 restored version 2."""


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (0, []),  # nothing folded
        (3, [3, 2, 1]),  # one after another
        (5, [5, 4]),  # a rebuild starts anew
        (6, [6, 2, 1]),  # a version from before the rebuild was restored
        (9, []),  # gone
    ],
)
def test_lineage_leads_to_memory_in_use(head: int, expected: list[int]) -> None:
    assert [one.version for one in lineage(head, RESTORED)] == expected


def test_turns_are_where_the_lineage_folded_them() -> None:
    folds = [fold(4, 3, 1, 8), fold(2, 1, 5, 8), fold(1, None, 1, 4), fold(6, 2, 9, 8)]
    standing = TurnPlaces(Plan(budget=900), folded_through=8, folds=lineage(6, folds))
    assert [standing.of(turn).fold for turn in TURNS[:4]] == [folds[2], folds[2], folds[1], folds[1]]


# Labels


def sentences(plan: Plan) -> list[str]:
    return [one.text for one in explain(plan, head=0, folded_through=0)]


@pytest.mark.parametrize(
    ("plan", "part"),
    [
        (Plan(budget=9, state=(120,)), "The summary is cut to its first 120 tokens"),
        (Plan(budget=9, state=(None, 0)), "Part 2 of the memory is left out"),
        (
            Plan(budget=9, merged=Merged(5, 8, 2), unrepresented=2),
            "2 turns between messages 5 and 8 did not fit",
        ),
        (Plan(budget=9, merged=Merged(5, 8, 2), unrepresented=3), "1 turn more did not fit"),
        (Plan(budget=9, unrepresented=1200), "1,200 turns did not fit"),
        (
            Plan(budget=9, lines=(TurnSpan(9, 10), TurnSpan(11, 12))),
            "2 turns of messages 9 to 12 as one-line summaries",
        ),
        (Plan(budget=9, dropped=1), "1 turn that should be shown in full did not fit."),
        (
            Plan(budget=9, verbatim=(Shown(1, 2, 30, 40),)),
            "30 tokens of the user's message remain, 40 tokens",
        ),
        (Plan(budget=9, recalled=((Quote(3), Quote(4)),)), "2 earlier messages recalled because they match"),
        (
            Plan(budget=9, recalled=((Quote(3, 0, 9),),)),
            "1 earlier message recalled in part because it matches",
        ),
        (Plan(budget=9, sources=(None, 0)), "Source 2 is left out"),
        (Plan(budget=9, sources=(77,)), "Source 1 is cut to its first 77 tokens"),
    ],
)
def test_binding_limits_are_named_with_reason(plan: Plan, part: str) -> None:
    (told,) = [text for text in sentences(plan) if part in text]
    assert "too long" in told or "room" in told or "fit" in told or "because" in told or "limit" in told


def test_timeline_names_revision_of_folded_turns_or_a_complete_prompt() -> None:
    (told,) = explain(Plan(budget=900, state=(None,)), head=4, folded_through=40)
    assert told.text.startswith("Messages 1 to 40 are covered by the summary, version 4.")
    assert told.seq == 1
    whole = Plan(budget=900, state=(None,), verbatim=(Shown(1, 2),))
    assert sentences(whole) == ["The prompt contains every turn in full."]


# The budget as a bar


def test_the_budget_is_full_and_in_the_order_of_the_prompt() -> None:
    sizes = {"instructions": 80, "summary": 500, "lines": 100, "window": 300, "question": 20}
    budget = budget_of([Section(*one) for one in sizes.items()], 1000)
    assert [(part.kind, part.count, part.start, part.width) for part in budget.parts] == [
        ("folded", 500, 0, 50),
        ("lines", 100, 50, 10),
        ("verbatim", 300, 60, 30),
        ("free", 100, 90, 10),
    ]
    assert budget.beside == [("Instructions", 80), ("Question", 20)]
    assert budget.tokens == 900
    assert [part.width for part in budget_of([], 0).parts] == [0]


# The turns as a bar


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
def test_timeline_counts_each_turn_once(plan: Plan, expected: tuple[int, ...]) -> None:
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
