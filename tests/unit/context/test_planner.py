"""What a plan shows: the order in which the budget is spent, and that no turn is lost between sections."""

import json
from dataclasses import replace
from typing import get_args
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.config.declared import RecallMode
from chatmemory.text.markers import LINES_HEADING
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens, heading_cost
from memory.context.plan import Merged, Plan, Section, Snapshot, merged_text
from memory.context.planner import MIN_NEWEST
from memory.history import turns as history
from memory.history.turns import MERGED_TOKENS, Turn, line_cost, turn_cost
from memory.limits import MAX_TURNS, MemoryLimits
from memory.policies.protocol import StateSection
from memory.recall.ranking import Quote, excerpt_of
from tests.unit.context.makers import chats, context_of, line_of, make_turn, plan_of, states, turn_of, turns_of, words
from tests.unit.recall.makers import said_of

LIMITS = MemoryLimits(recall="off", window_share=1.0)
"""No room is reserved for excerpts, and long replies are shown whole where they fit."""
SUMMARY = StateSection("summary", words(500))
sizes = st.lists(st.sampled_from([2, 8, 20, 60, 240, 800, 1500, 4000]), min_size=1, max_size=30)


def verbatim_turns(plan: Plan) -> list[int]:
    """Return the numbers of the turns that are shown verbatim."""
    return [span.from_seq // 2 for span in plan.verbatim]


def lined(plan: Plan) -> list[int]:
    """Return the numbers of the turns that are shown as lines."""
    return [span.from_seq // 2 for span in plan.lines]


def summary_of(tokens: int) -> list[StateSection]:
    return [StateSection("summary", words(tokens))] if tokens else []


def test_a_short_chat_is_shown_whole() -> None:
    plan = plan_of(turns_of(100, 200, 300, 400, 500), LIMITS, [SUMMARY])
    assert verbatim_turns(plan) == [0, 1, 2, 3, 4]
    assert (plan.lines, plan.merged, plan.state, plan.unrepresented) == ((), None, (None,), 0)
    assert not any(one.clipped for one in plan_of(turns_of(600, 1500), MemoryLimits()).verbatim), "long replies, too"


def test_turns_that_exactly_fill_the_budget_are_all_verbatim() -> None:
    turns = turns_of(*[292] * 10)
    assert verbatim_turns(plan_of(turns, LIMITS)) == list(range(10))
    assert len(plan_of(turns, replace(LIMITS, prompt_budget=2999)).lines) > 0


@pytest.mark.parametrize(
    ("newest", "state", "is_clipped", "clip"),
    [
        (3000 - 500 - 3 * MESSAGE_OVERHEAD, 500, False, None),  # both fit
        (4000, 500, True, None),  # the newest turn is clipped before the state
        (100, 5000, False, 3000 - 100 - 3 * MESSAGE_OVERHEAD),  # the state makes room for the newest turn
        (4000, 5000, True, 1500 - MESSAGE_OVERHEAD),  # if neither fits, the state has half at most
    ],
)
def test_the_newest_turn_and_the_state(newest: int, state: int, is_clipped: bool, clip: int | None) -> None:
    plan = plan_of(turns_of(newest), LIMITS, [StateSection("summary", words(state))])
    assert (plan.verbatim[-1].from_seq, plan.verbatim[-1].clipped, plan.state) == (1, is_clipped, (clip,))


def test_state_sections_are_served_in_their_order() -> None:
    sections = [StateSection("facts", words(1000)), StateSection("narrative", words(1000))]
    assert plan_of(turns_of(4000), LIMITS, sections).state == (None, 1500 - 1000 - 2 * MESSAGE_OVERHEAD)
    assert plan_of(turns_of(4000), replace(LIMITS, prompt_budget=1600), sections).state == (796, 0)


def test_a_side_that_is_short_leaves_its_room_to_the_other() -> None:
    turn = make_turn(0, words(50), words(5000))
    (newest,) = plan_of([turn], LIMITS).verbatim
    assert (newest.user_clip, newest.assistant_clip) == (None, 3000 - 50 - 2 * MESSAGE_OVERHEAD)


def test_a_turn_of_the_window_that_does_not_fit_becomes_a_line() -> None:
    limits = replace(LIMITS, prompt_budget=400, k_raw_turns=8)
    plan = plan_of(turns_of(*[2900] * 8), limits, window_turns=8)
    assert (verbatim_turns(plan), lined(plan), plan.dropped) == ([7], [4, 5, 6], 7)
    assert (plan.merged, plan.unrepresented) == (Merged(1, 8, 4), 4)


def test_replies_as_assistants_write_them() -> None:
    """With 800 tokens per turn and a full summary, the user's messages of three turns are whole, their replies are
    cut to two fifths of the budget, and all other turns are lines."""
    turns = [make_turn(number, words(40), words(760), line_of(number, 20)) for number in range(7)]
    plan = plan_of(turns, MemoryLimits(), [SUMMARY])
    assert (verbatim_turns(plan), lined(plan)) == ([4, 5, 6], [0, 1, 2, 3])
    assert (plan.dropped, plan.merged, plan.unrepresented) == (0, None, 0)
    assert [one.user_clip for one in plan.verbatim] == [None] * 3
    clips = [one.assistant_clip or 760 for one in plan.verbatim]
    assert clips == sorted(clips)
    assert 1100 <= sum(clips) + 3 * (40 + 2 * MESSAGE_OVERHEAD) <= 1200
    assert plan.free >= 600  # reserved for excerpts


def test_a_long_turn_before_the_window_is_a_line_for_the_sake_of_all_others() -> None:
    plan = plan_of(turns_of(100, 100, 900, 100, 50, 50, 50, 50), LIMITS, [SUMMARY])
    assert (verbatim_turns(plan), lined(plan)) == ([3, 4, 5, 6, 7], [0, 1, 2])


def test_excerpts_move_nothing_before_them() -> None:
    turns = turns_of(*[200] * 30)
    plain = plan_of(turns, MemoryLimits(), [SUMMARY])
    said = said_of([words(100) for _ in range(20)])
    found = [excerpt_of(Quote(seq), said[seq]) for seq in range(1, 20)]
    moved = [turn_of(number + 100, 200) for number in range(30)]
    for room in (0, 300, None):
        plan = plan_of(moved, MemoryLimits(), [SUMMARY], excerpts=found, recall_tokens=room)
        assert (len(plan.verbatim), len(plan.lines)) == (len(plain.verbatim), len(plain.lines))
        assert plan.state == plain.state
        assert bool(plan.recalled) == (room != 0)


def test_a_lean_plan_has_lines_instead_and_keeps_the_anchor() -> None:
    turns = turns_of(*[200] * 12)
    plain, lean = (plan_of(turns, MemoryLimits(), [SUMMARY], lean=lean) for lean in (False, True))
    assert (verbatim_turns(lean), lined(lean)) == ([9, 10, 11], list(range(9)))
    assert len(plain.verbatim) > 3
    assert lean.anchor_seq == plain.anchor_seq
    assert lean.free > plain.free
    assert lean.unrepresented == 0


def test_lines_are_short_in_a_lean_plan_if_they_stand_for_turns_that_would_be_verbatim() -> None:
    turns = turns_of(*[200] * 30)
    plain, lean = (plan_of(turns, MemoryLimits(), [SUMMARY], lean=lean) for lean in (False, True))
    assert (plain.line_tokens, lean.line_tokens, len(lean.lines)) == (0, 14, 27)
    whole = plan_of(turns, MemoryLimits(line_tokens=1000), [SUMMARY], lean=True)
    assert 21 * 27 <= lean.free - whole.free <= 26 * 27


def test_long_turns_of_the_window_have_a_third_of_their_part_in_a_lean_plan_and_lines_stay() -> None:
    limits, state = MemoryLimits(), [SUMMARY]
    long = [make_turn(number, words(40), words(760), line_of(number, 40)) for number in range(7)]
    plain, lean = (plan_of(long, limits, state, lean=lean) for lean in (False, True))
    assert lean.free - plain.free == pytest.approx(limits.window_part * 2 // 3, abs=20)
    assert (lean.lines, lean.line_tokens) == (plain.lines, 0), "it begins as others do"
    short = turns_of(*[100] * 7)
    assert plan_of(short, limits, state, lean=True).verbatim == plan_of(short, limits, state).verbatim[-3:]


@pytest.mark.parametrize("lean", [False, True])
def test_older_verbatim_turns_leave_tenth_of_excerpt_room(lean: bool) -> None:
    turns = turns_of(*[200] * 20)
    auto, as_lean, generous, always, off = (
        plan_of(turns, MemoryLimits(recall=mode), [SUMMARY], lean=lean) for mode in get_args(RecallMode)
    )
    assert always.anchor_seq > auto.anchor_seq > off.anchor_seq
    assert as_lean == auto == generous
    if not lean:
        assert always.free > auto.free >= 300
        assert auto.unrepresented == 0


def test_lines_borrow_half_of_excerpt_room_when_fold_is_late() -> None:
    limits = MemoryLimits(recall_share=0.5)
    plan = plan_of(turns_of(*[240] * 120), limits, [SUMMARY])
    kept = plan_of(turns_of(*[240] * 120), replace(limits, recall="off"), [SUMMARY])
    assert 700 <= plan.free <= 800
    assert len(plan.lines) < len(kept.lines)


def test_lines_that_do_not_fit_are_merged_into_one_that_names_their_range() -> None:
    plan = plan_of(turns_of(*[240] * 120), LIMITS, [SUMMARY])
    count = 120 - 3 - len(plan.lines)
    assert verbatim_turns(plan) == [117, 118, 119]
    assert lined(plan) == list(range(count, 117))
    assert plan.merged == Merged(1, 2 * count, count)
    assert plan.unrepresented == count
    largest = merged_text(999_999_999, 999_999_999, 999_999)  # of the numbers that a chat can have
    assert line_cost(largest) <= MERGED_TOKENS


def test_turns_that_were_not_loaded_are_merged_and_counted() -> None:
    turns = [turn_of(number, 100) for number in range(50, 55)]
    plan = plan_of(turns, LIMITS, older_turns=40, older_from_seq=11)
    assert verbatim_turns(plan) == [50, 51, 52, 53, 54]
    assert plan.merged == Merged(11, 100, 40)
    assert plan.unrepresented == 40


def test_a_turn_without_a_line_is_counted_as_left_out() -> None:
    turns = [make_turn(0, words(2000), words(900), line=""), *turns_of(1, 600, 600, 600)[1:]]
    plan = plan_of(turns, LIMITS)
    assert (lined(plan), plan.unrepresented) == ([0], 1)


def test_without_memory_only_the_newest_turns_that_fit() -> None:
    plan = plan_of(turns_of(*[500] * 10), replace(LIMITS, enabled=False), [SUMMARY])
    assert verbatim_turns(plan) == [5, 6, 7, 8, 9]
    assert (plan.state, plan.lines, plan.merged, plan.unrepresented) == ((0,), (), None, 5)


def test_a_block_fills_two_fifths_of_the_room() -> None:
    turns = turns_of(*[200] * 20)
    plan = plan_of(turns, LIMITS, anchor_seq=1)
    verbatim = sum(turn_cost(turns[number]) for number in verbatim_turns(plan))
    assert verbatim <= 1200 < verbatim + turn_cost(turns[0]) + 400
    kept = plan_of(turns_of(*[200] * 21), LIMITS, anchor_seq=plan.anchor_seq)
    assert kept.anchor_seq == plan.anchor_seq
    assert len(kept.verbatim) == len(plan.verbatim) + 1


@pytest.mark.parametrize("anchor_seq", [0, 10**6])
def test_without_an_anchor_as_many_as_fit(anchor_seq: int) -> None:
    plan = plan_of(turns_of(*[200] * 20), LIMITS, anchor_seq=anchor_seq)
    assert len(plan.verbatim) == 12  # and eight lines; a thirteenth turn would need 3,023 tokens


@given(sizes, st.integers(0, 4000), st.integers(0, 700), st.integers(1, 4))
def test_a_turn_is_left_out_only_if_its_line_has_no_room(
    sizes: list[int], budget: int, state: int, window: int
) -> None:
    limits = replace(LIMITS, prompt_budget=budget, k_raw_turns=window)
    sections = summary_of(state)
    turns = turns_of(*sizes)
    context = context_of(turns, limits, sections)
    plan = context.plan
    if not plan.unrepresented:
        return
    places = {*verbatim_turns(plan), *lined(plan)}
    newest_left_out = max(number for number in range(len(turns)) if number not in places)
    line = line_cost(" ".join(turns[newest_left_out].line.split()))
    assert context.tokens + line + heading_cost(LINES_HEADING) + MERGED_TOKENS > budget


@given(sizes, st.integers(0, 700))
def test_the_window_is_verbatim_whenever_it_fits(sizes: list[int], state: int) -> None:
    sections = summary_of(state)
    turns = turns_of(*sizes)
    plan = plan_of(turns, LIMITS, sections)
    window = range(max(0, len(turns) - 3), len(turns))
    needed = sum(turn_cost(turns[number]) for number in window) + (state + MESSAGE_OVERHEAD if state else 0)
    if needed + LIMITS.prompt_budget // 10 <= LIMITS.prompt_budget:
        assert set(window) <= set(verbatim_turns(plan))
        assert plan.dropped == 0


@given(chats(), states, st.sampled_from([None, 0, 7]), st.booleans())
def test_a_snapshot_survives_storage(
    turns: list[Turn], state: list[StateSection], card_epoch: int | None, again: bool
) -> None:
    snapshot = Snapshot(
        revision=3,
        policy="card",
        plan=plan_of(turns, LIMITS, state),
        sections=(Section("lines", 40, message_ids=(UUID(int=4),), clipped=True), Section("question", 7)),
        tokens=40,
        tools_hash="b" * 64,
        prompt_hash="a" * 64,
        history_tokens=900,
        anchor_before=5,
        again=again,
        card_epoch=card_epoch,
    )
    stored = json.loads(json.dumps(snapshot.to_json()))
    assert Snapshot.from_json(stored) == snapshot
    assert snapshot.prompt_tokens == 47


def test_a_plan_looks_at_no_more_lines_than_it_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning 200 turns does not take 200 token counts."""
    counted: list[str] = []

    def counting(text: str) -> int:
        counted.append(text)
        return count_tokens(text)

    turns = [make_turn(number, words(200), "", line_of(number, 40)) for number in range(MAX_TURNS)]
    monkeypatch.setattr(history, "count_repeated", counting)
    plan = plan_of(turns, LIMITS, [SUMMARY])
    assert len(plan.lines) <= len(counted) <= len(plan.lines) + 3


def test_turns_whose_lines_are_no_shorter_are_all_verbatim_when_they_fit() -> None:
    turns = [make_turn(number, words(15), words(5), line_of(number, 40)) for number in range(100)]
    plan = plan_of(turns, LIMITS)
    assert len(plan.verbatim) == 100
    assert plan.lines == ()


def test_a_turn_of_the_window_of_which_enough_fits_is_cut_and_not_a_line() -> None:
    limits = replace(LIMITS, prompt_budget=2000, k_raw_turns=3)
    plan = plan_of([make_turn(number, words(1500), words(20)) for number in range(3)], limits, window_turns=3)
    assert verbatim_turns(plan) == [0, 1, 2]
    assert all(one.user_clip and one.user_clip > MIN_NEWEST for one in plan.verbatim)
