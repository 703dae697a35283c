"""The policy `progressive` (seed 001): important data in seven kinds, and a narrative that grows with each fold.

The data are merged and never rewritten, so that nothing fades once it was extracted. The narrative is rewritten at
each fold, longer each time up to its last target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chatmemory.llm.protocol import Schema
from chatmemory.text.markers import quote_markers
from chatmemory.text.tokens import MESSAGE_OVERHEAD, clip_end
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.policies.edit_form import EditField
from memory.policies.numbers import Numbers, numbers_in, whole
from memory.policies.progressive.answers import ParsedAnswers, Wanted, parse_one_call, parse_two_calls
from memory.policies.progressive.edit import edit_fields, from_fields
from memory.policies.progressive.important_data import merged, rendered, trimmed
from memory.policies.progressive.narrative_length import LAST_TARGET, summary_cap, target_words, tokens_of
from memory.policies.progressive.prompts import (
    BOTH_SCHEMA,
    DATA_SCHEMA,
    TASK,
    for_both,
    for_data,
    for_summary,
)
from memory.policies.progressive.stored import data_of, folds_of, state_of
from memory.policies.protocol import (
    Answers,
    Ask,
    Counts,
    FoldProgress,
    Policy,
    Refusal,
    State,
    StateSection,
    state_tokens,
)
from memory.policies.summarizer_input import summarizer_input

DATA_HEADING = "[IMPORTANT DATA FROM PREVIOUS CONVERSATIONS]"
SUMMARY_HEADING = "[CONVERSATION SUMMARY]"
HEADS = 25
"""Approximate tokens of both headings and their messages."""

OUTPUT_ROOM = 4
"""Output limit as a multiple of the answer's length: reasoning models spend output tokens before the first word."""

MOST_WINDOW_TURNS = 50


@dataclass(frozen=True)
class ProgressiveNumbers(Numbers):
    """Options of a chat."""

    threshold: int = whole(
        3000,
        "Instructions, data, summary and unfolded turns above this many tokens start a fold.",
        at_least=200,
        at_most=1_000_000,
    )
    window_tokens: int = whole(
        2500,
        "Newest turns that stay verbatim, in tokens. Fewer stay where the whole would exceed two thirds of the "
        "threshold.",
        at_most=1_000_000,
    )
    data_tokens: int = whole(
        600, "All important data together, in tokens as the model reads them.", at_least=50, at_most=100_000
    )
    calls: int = whole(
        1,
        "`1`: one summarizer call returns data and summary. `2`: one call for each.",
        at_least=1,
        at_most=2,
    )


class Progressive(Policy):
    """Folds when everything that a prompt would contain, including the chat's instructions, exceeds the threshold."""

    name = "progressive"
    label = "Key data + story"
    description = "Key data is kept apart from a growing story of the conversation."
    section_titles = {"data": "Key data", "narrative": "Story"}
    window_first = True
    numbers = ProgressiveNumbers
    uses_options = ()
    counts_instructions = True

    def measure(self, state: State, counts: Counts, limits: MemoryLimits) -> FoldProgress:
        """Tokens of instructions, data, summary and unfolded turns."""
        return FoldProgress("tokens", self._fixed(state, limits) + counts.tokens, _numbers(limits).threshold)

    def window(self, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> int:
        """The newest turns that, with everything else, leave a third of the threshold for new turns; at least one.

        The state counts with its size, but at least with the size that it will have after some folds. Otherwise the
        window would shrink by one turn and one call at a time while a rebuild makes the state grow.
        """
        numbers = _numbers(limits)
        grown = HEADS + numbers.data_tokens // 2 + tokens_of(target_words(LAST_TARGET)[0])
        room = min(numbers.window_tokens, _kept(numbers) - self._fixed(state, limits, grown))
        kept = 0
        for turn in reversed(turns):
            room -= turn.tokens
            if room < 0:
                break
            kept += 1
        return max(1, kept)

    def window_reach(self, limits: MemoryLimits) -> int:
        """A fixed number, however short the turns are."""
        return MOST_WINDOW_TURNS

    def ask(
        self, state: State, turns: Sequence[Turn], limits: MemoryLimits, answers: Answers = ()
    ) -> Ask | None:
        """Ask for data and summary in one call or two, and once more if an answer cannot be used."""
        wanted = _found(state, turns, limits, answers).wanted
        return _request(wanted, state, turns, limits) if wanted else None

    def absorb(self, state: State, turns: Sequence[Turn], answers: Answers, limits: MemoryLimits) -> State:
        """Merge the data and cut them to their tokens; cut the summary if it is far over its target.

        Without usable data, the old data stay. Raise `Refusal` without a usable summary.
        """
        known, folds = data_of(state), folds_of(state)
        if not _spoken(turns):
            return state_of(state.summary, known, folds)
        found = _found(state, turns, limits, answers)
        if not found.summary:
            raise found.refusal or Refusal("empty")
        data = merged(known, found.data) if found.data else known
        data = trimmed(data, _numbers(limits).data_tokens)
        return state_of(clip_end(found.summary, summary_cap(folds + 1)), data, folds + 1)

    def render(self, state: State) -> list[StateSection]:
        """Render the data as JSON, then the narrative, each under the seed's heading."""
        data = rendered(data_of(state))
        parts = (("data", DATA_HEADING, data), ("summary", SUMMARY_HEADING, state.summary))
        return [
            StateSection(kind, f"{heading}\n{quote_markers(text)}") for kind, heading, text in parts if text
        ]

    def edit_fields(self, state: State, limits: MemoryLimits) -> list[EditField]:
        """The narrative, and a field for each kind of data."""
        return edit_fields(state)

    def from_fields(self, before: State, texts: Mapping[str, str], limits: MemoryLimits) -> State:
        """The narrative and the data with the values of the fields."""
        return from_fields(before, texts, _numbers(limits).data_tokens)

    def _fixed(self, state: State, limits: MemoryLimits, at_least: int = 0) -> int:
        """Tokens of instructions and state, counting at least `at_least` for the state.

        Instructions count as at most a third of the threshold, and both together as at most two thirds: if there were
        no room for turns, every turn would cause a fold.
        """
        numbers = _numbers(limits)
        instructions = limits.instructions_tokens + MESSAGE_OVERHEAD if limits.instructions_tokens else 0
        counted = min(instructions, numbers.threshold // 3)
        return min(counted + max(state_tokens(self, state), at_least), _kept(numbers))


def _found(state: State, turns: Sequence[Turn], limits: MemoryLimits, answers: Answers) -> ParsedAnswers:
    spoken = _spoken(turns)
    if not spoken:
        return ParsedAnswers()
    sources = [state.summary, *(side for turn in spoken for side in (turn.user, turn.assistant))]
    if _numbers(limits).calls == 2:
        return parse_two_calls(answers, sources)
    low, _ = target_words(folds_of(state) + 1)
    return parse_one_call(answers, sources, prose_words=low // 2)


def _request(wanted: Wanted, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> Ask:
    low, high = target_words(folds_of(state) + 1)
    data, summary = _numbers(limits).data_tokens // 2, tokens_of(high)
    if wanted == "data":
        return _ask(for_data(), summarizer_input("", turns), data, DATA_SCHEMA)
    told = summarizer_input(state.summary, turns)
    if wanted == "summary":
        return _ask(for_summary(low, high), told, summary, None)
    return _ask(for_both(low, high), told, data + summary, BOTH_SCHEMA)


def _ask(answer_format: str, told: str, tokens: int, schema: Schema | None) -> Ask:
    """Make a request. One for data only is optional: the fold continues without its answer."""
    optional = schema is DATA_SCHEMA
    return Ask(TASK, answer_format, told, tokens * OUTPUT_ROOM, tokens, schema, is_optional=optional)


def _spoken(turns: Sequence[Turn]) -> list[Turn]:
    return [turn for turn in turns if turn.user or turn.assistant]


def _kept(numbers: ProgressiveNumbers) -> int:
    """Maximum tokens that a fold leaves, unless a single turn is larger."""
    return numbers.threshold * 2 // 3


def _numbers(limits: MemoryLimits) -> ProgressiveNumbers:
    return numbers_in(limits, Progressive.name, ProgressiveNumbers)
