"""Makers of turns and states for the pure tests of memory: stored counts are correct, ids are derived from seqs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from memory.context.plan import Plan, Source
from memory.context.planner import Material, choose, sections_cost
from memory.context.prompt import Context, PromptRequest, assemble
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.policies.protocol import StateSection

NO_QUESTION = PromptRequest()


def make_turn(number: int, user: str, assistant: str = "", line: str = "-", *, cut_off: bool = False) -> Turn:
    """Make turn `number` (from 0) of a chat with two seqs per turn. A `line` of "-" is replaced by a default."""
    first = 2 * number + 1
    sides = ((first, user), (first + 1, assistant))
    return Turn(
        from_seq=first,
        through_seq=first + 1,
        user=user,
        assistant=assistant,
        cut_off=cut_off,
        user_tokens=count_tokens(user),
        assistant_tokens=count_tokens(assistant),
        message_ids=tuple(UUID(int=seq) for seq, text in sides if text),
        last_assistant_id=UUID(int=first + 1) if assistant else None,
        line=f"turn {number} in a few words" if line == "-" else line,
    )


def turn_of(number: int, tokens: int) -> Turn:
    """Make a turn whose two texts have `tokens` tokens together (at least 2), without per-message overhead."""
    user = tokens // 3 or 1
    return make_turn(number, words(user), words(tokens - user), line_of(number, min(40, tokens)))


def turns_of(*sizes: int) -> list[Turn]:
    """Make a chat's turns, of so many tokens each."""
    return [turn_of(number, tokens) for number, tokens in enumerate(sizes)]


def words(tokens: int) -> str:
    """Return a text of exactly `tokens` tokens."""
    return " word" * tokens


def line_of(number: int, tokens: int) -> str:
    """Return a line of about `tokens` tokens."""
    return f"{number} " + "line " * max(1, tokens - 2)


def without_texts(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns as loaded with counts and lines only."""
    return [replace(turn, user="", assistant="") for turn in turns]


def with_texts(turns: Sequence[Turn], plan: Plan) -> list[Turn]:
    """Return the turns as loaded for `plan`: with the texts of those that it shows verbatim."""
    shown = {span.from_seq for span in plan.verbatim}
    return [turn if turn.from_seq in shown else replace(turn, user="", assistant="") for turn in turns]


def plan_of(turns: Sequence[Turn], limits: MemoryLimits, state: Sequence[StateSection] = (), **given: Any) -> Plan:
    """Plan a prompt for these turns from counts and lines only."""
    return choose(material_of(turns, limits, state, **given))


def context_of(
    turns: Sequence[Turn],
    limits: MemoryLimits,
    state: Sequence[StateSection] = (),
    asked: PromptRequest = NO_QUESTION,
    **given: Any,
) -> Context:
    """Build the context of these turns as services do: plan, load what the plan shows, assemble."""
    plan = plan_of(turns, limits, state, **given)
    material = material_of(turns, limits, state, **given)
    return assemble(plan, material, state, with_texts(turns, plan), asked)


def material_of(
    turns: Sequence[Turn], limits: MemoryLimits, state: Sequence[StateSection] = (), **given: Any
) -> Material:
    """Return the material of a plan: these turns from counts and lines only, and nothing before them."""
    fields = {"window_turns": limits.k_raw_turns, "state_tokens": sections_cost(state), **given}
    counted = tuple(turn for turn in without_texts(turns) if turn.tokens)
    return Material(turns=counted, limits=limits, **fields)


PIECES = st.sampled_from(
    [
        "word ",
        "😀",
        "👩‍👩‍👧‍👦",
        "e\u0301\u0327",
        "\n",
        "User: ",
        "\nAssistant: no\n",
        "=== END_NEW_TURNS ===\n",
        "RECENT CONVERSATION:\n",
        "a" * 50,
        "漢字",
        "/A\t",
        " " * 30,
        "<|endoftext|>",
        "</s>",
        "\u2028User: x",
        "3RK2T9 ",
    ]
)
texts = st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=8).map("".join)
long_texts = st.builds(lambda text, times: text * times, texts, st.sampled_from([1, 1, 1, 5, 40, 200]))


@st.composite
def chats(draw: st.DrawFn, max_turns: int = 8) -> list[Turn]:
    """Generate turns of any text and length, some without a reply, cut off, without a line or without text."""
    turns = []
    for number in range(draw(st.integers(0, max_turns))):
        user, assistant = draw(long_texts), draw(st.one_of(st.just(""), long_texts))
        line = draw(st.one_of(st.just(""), st.just("-"), texts.map(lambda text: text[:60])))
        turns.append(make_turn(number, user, assistant, line, cut_off=draw(st.booleans())))
    return turns


states = st.lists(st.builds(StateSection, st.sampled_from(["summary", "facts"]), long_texts.filter(bool)), max_size=2)
all_limits = st.builds(
    MemoryLimits,
    k_raw_turns=st.integers(1, 4),
    prompt_budget=st.one_of(st.sampled_from([0, 1, 50, 60, 3000]), st.integers(0, 1500)),
    turns_as=st.sampled_from(["messages", "text"]),
    enabled=st.sampled_from([True, True, True, False]),
)

sources = st.lists(st.builds(Source, texts, long_texts), max_size=4).map(tuple)
asked_for = st.builds(PromptRequest, question=texts, instructions=texts, sources=sources, disarms=st.booleans())


def memory_tokens(context: Context) -> int:
    """Count the tokens of memory in the actual prompt: all messages before the sources and the question."""
    besides = sum(section.kind in {"sources", "question"} for section in context.sections)
    messages = context.prompt.messages[: len(context.prompt.messages) - besides]
    return sum(count_tokens(message.content) + MESSAGE_OVERHEAD for message in messages)
