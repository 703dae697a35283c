"""Excerpts in a prompt: within their share and the budget for any text, no turn twice, and rebuilt from the plan."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text.markers import RECALL_HEADING
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from memory.context.plan import Plan, render_excerpts
from memory.context.planner import ExcerptChoice, choose
from memory.context.prompt import Context, PromptRequest, assemble, rebuild
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.policies.protocol import StateSection
from memory.recall.ranking import Excerpt, Quote, RecalledMessage, excerpt_of
from tests.support.prompts import labels
from tests.unit.context.makers import (
    all_limits,
    asked_for,
    chats,
    make_turn,
    material_of,
    memory_tokens,
    states,
    turn_of,
    with_texts,
    words,
)
from tests.unit.recall.makers import recalled, said_of

LIMITS = MemoryLimits()


def moved(turns: list[Turn], by: int) -> list[Turn]:
    """The same turns with their seqs increased by `by`."""
    return [replace(turn, from_seq=turn.from_seq + by, through_seq=turn.through_seq + by) for turn in turns]


def context_with(
    excerpts: list[Excerpt],
    said: dict[int, RecalledMessage],
    turns: list[Turn],
    limits: MemoryLimits = LIMITS,
    state: tuple[StateSection, ...] = (),
    asked: PromptRequest = PromptRequest(),  # noqa: B008  # an immutable value
) -> Context:
    material = material_of(turns, limits, state, older_turns=5, older_from_seq=1, excerpts=excerpts)
    plan = choose(material)
    return assemble(plan, material, state, with_texts(turns, plan), asked, quoted=said)


def section(context: Context) -> str:
    return next((one.text for one in context.sections if one.kind == "recall"), "")


def quoted(context: Context) -> list[int]:
    """The seqs of the quoted messages, in the order of the prompt."""
    return [quote.seq for quotes in context.plan.recalled for quote in quotes]


def test_excerpts_follow_turns_oldest_first_grouped_by_day() -> None:
    said = said_of(["What is my code?", "It is XY-12.", "And my seat?", "14C", "Fine", "Yes", "My name?"])
    said |= {seq: replace(said[seq], on="2026-05-04") for seq in (4, 5, 7)}
    best_first = [excerpt_of(Quote(seq), said[seq]) for seq in (3, 1, 7, 5, 2, 4)]
    turns = moved([make_turn(number, words(30), words(30)) for number in range(60)], 1000)
    context = context_with(best_first, said, turns, asked=PromptRequest("Which seat?"))
    assert [one.kind for one in context.sections][-2:] == ["recall", "question"]
    assert section(context) == (
        f"{RECALL_HEADING}\n\n"
        "[2026-05-03]\nUser: What is my code?\nAssistant: It is XY-12.\nUser: And my seat?\n\n"
        "[2026-05-04]\nAssistant: 14C\nUser: Fine\nUser: My name?"
    )
    assert context.prompt.messages[-2].role == "user"
    assert context.sections[-2].message_ids == tuple(one.id for one in said.values() if one.seq != 6)


def test_a_day_that_comes_between_parts_another() -> None:
    said = said_of(["Breakfast is at seven.", "Noted.", "Lunch is at one.", "Fine.", "Dinner is at nine."])
    said[3] = replace(said[3], on="2026-05-04")
    choice = ExcerptChoice([excerpt_of(Quote(seq), said[seq]) for seq in (1, 5, 3)], 1000)
    text = render_excerpts(choice.quotes, said)
    assert [line for line in text.splitlines() if line.startswith("[2026")] == [
        "[2026-05-03]",
        "[2026-05-04]",
        "[2026-05-03]",
    ]
    assert count_tokens(text) <= choice.cost <= count_tokens(text) + 10


@pytest.mark.parametrize("end", [".", "", " then?"])
@pytest.mark.parametrize("seqs", [(1, 2, 3, 4, 5), (1, 3, 5, 7, 30), (30, 1, 7)])
def test_excerpt_cost_estimate_is_close(seqs: tuple[int, ...], end: str) -> None:
    said = said_of([f"The ferry number {number} leaves from the pier at noon{end}" for number in range(30)])
    choice = ExcerptChoice([excerpt_of(Quote(seq), said[seq]) for seq in seqs], 1000)
    taken = count_tokens(render_excerpts(choice.quotes, said)) + MESSAGE_OVERHEAD
    assert taken <= choice.cost <= taken + 5


def test_pieces_of_one_message_share_its_mark() -> None:
    said = said_of(["One goes first. Two comes next. Three waits. Four is the last."])
    choice = ExcerptChoice([excerpt_of(Quote(1, *span), said[1]) for span in ((0, 15), (32, 44))], 1000)
    text = render_excerpts(choice.quotes, said)
    assert text.endswith("User: One goes first. […] Three waits. […]")
    assert count_tokens(text) + MESSAGE_OVERHEAD <= choice.cost


def test_a_piece_says_that_there_is_more() -> None:
    said = said_of(["one two three four"])
    assert render_excerpts([[Quote(1, 4, 7), Quote(1, 14, 18)]], said).splitlines()[-1] == ("User: […] two […] four")
    assert render_excerpts([[Quote(1, 0, 7)]], said).splitlines()[-1] == "User: one two […]"


def test_the_share_is_kept_and_better_excerpts_come_first() -> None:
    said = said_of([words(200) for _ in range(20)])
    excerpts = [excerpt_of(Quote(seq), said[seq]) for seq in (9, 3, 17, 5, 1, 7)]
    turns = moved([turn_of(number, 100) for number in range(40)], 1000)
    context = context_with(excerpts, said, turns, replace(LIMITS, recall="always"))
    tokens = next(one.tokens for one in context.sections if one.kind == "recall")
    assert 400 < tokens <= context.plan.free
    assert quoted(context) == [3, 9]
    none = context_with(excerpts, said, turns, replace(LIMITS, recall_share=0.0))
    assert (section(none), none.plan.recalled) == ("", ())


def test_a_turn_that_is_shown_word_for_word_is_not_recalled_and_the_next_best_is() -> None:
    turns = [turn_of(number, 100) for number in range(26)]
    said = said_of([side for turn in turns for side in (turn.user, turn.assistant)])
    excerpts = [excerpt_of(Quote(seq), said[seq]) for seq in (51, 45, 43, 1, 3)]
    context = context_with(excerpts, said, turns, replace(LIMITS, recall_share=0.11))
    assert {43, 45, 51} <= {shown.from_seq for shown in context.plan.verbatim}
    assert quoted(context) == [1, 3]


@given(recalled(), chats(), states, all_limits, asked_for, st.integers(0, 12))
def test_any_text_fits_any_budget_and_comes_once(
    found: tuple[list[Excerpt], dict[int, RecalledMessage]],
    turns: list[Turn],
    state: list[StateSection],
    limits: MemoryLimits,
    asked: PromptRequest,
    overlap: int,
) -> None:
    excerpts, said = found
    turns = moved(turns, 2 * overlap)
    context = context_with(excerpts, said, turns, limits, tuple(state), asked)
    assert context.tokens == memory_tokens(context) <= limits.prompt_budget
    verbatim = {seq for shown in context.plan.verbatim for seq in range(shown.from_seq, shown.through_seq + 1)}
    quoted = [quotes[0].seq for quotes in context.plan.recalled]
    assert verbatim.isdisjoint(quote.seq for quotes in context.plan.recalled for quote in quotes)
    assert sorted(set(quoted)) == quoted
    stored = Plan.from_json(json.loads(json.dumps(context.plan.to_json())))
    assert rebuild(stored, state, with_texts(turns, stored), asked, said) == context


@given(recalled())
def test_user_text_opens_no_excerpt(found: tuple[list[Excerpt], dict[int, RecalledMessage]]) -> None:
    excerpts, said = found
    said = {seq: replace(one, role=("user", "assistant", "tool")[seq % 3]) for seq, one in said.items()}
    text = render_excerpts([[excerpt.quote] for excerpt in excerpts], said)
    heads = [
        (f"[{said[one.quote.seq].on}", said[one.quote.seq].speaker)
        for one in excerpts
        if render_excerpts([[one.quote]], said)
    ]
    assert labels(text) == ([RECALL_HEADING, *(label for pair in heads for label in pair)] if text else [])
