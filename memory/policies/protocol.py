"""The interface of a policy, and the rules that all policies share: options of a chat, and when it is due.

Four pure decisions over values. A policy never sees a database, a clock or a model. It decides when turns are due, what
to ask the summarizer, what to make of the answers, how its state is rendered in a prompt, and how people edit it. Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, get_args

from pydantic import JsonValue

from chatmemory.config.declared import BudgetFor, RecallMode, TurnsAs
from chatmemory.llm.protocol import Completion, Role, Schema
from chatmemory.text.cleaning import without_invisible
from chatmemory.text.markers import LINES_HEADING, indented, quote_markers
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_repeated, count_tokens, heading_cost
from memory.history.turns import (
    CUT_OFF_TOKENS,
    OUTLINE_COST,
    Turn,
    before_window,
    line_cost,
    line_text,
    verbatim_head_cost,
)
from memory.limits import MAX_TURNS, MemoryLimits
from memory.policies.state_parts import BadEdit, EditField, clean, require_within

JSON: TypeAlias = JsonValue

FAULTS: dict[str, str] = {
    "empty": "The summarizer's answer is empty.",
    "truncated": "The summarizer's answer breaks off at its output limit. A model that reasons may need a higher "
    "MEMORY_SUMMARIZER_OUTPUT_TOKENS.",
    "refused": "The summarizer refused to answer.",
    "error_text": "The summarizer answered with an error message.",
    "wrong_shape": "The summarizer's answer is not the JSON object that it was asked for.",
    "new_url": "The answer has a link or an address that appears in none of the messages.",
    "new_instruction": "The summary contains an instruction that appears in none of the messages; it was rejected.",
    "echo": "The answer repeats the summarizer's instructions.",
    "unknown_figures": "The answer has numbers or codes that appear in none of the messages, also when asked again.",
    "unrelated": "The answer has nothing of what was known or said, also when asked again.",
    "unsaid": "The answer only repeats its turn's sources or instructions, and none of the messages.",
}
"""The meaning of each fault, for staff."""


@dataclass(frozen=True, slots=True)
class State:
    """What a policy remembers of all folded turns. `summary` has its own column; `data` belongs to the policy."""

    summary: str = ""
    data: Mapping[str, JSON] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        """`data` as stored in a column next to the summary, with the version of its format."""
        return {"version": 1, "data": dict(self.data)}

    @classmethod
    def from_json(cls, summary: str, stored: Mapping[str, JSON]) -> State:
        """Return the state from its two columns. A chat that has never been folded stores `{}`."""
        data = stored.get("data")
        return cls(summary, data if isinstance(data, dict) else {})


@dataclass(frozen=True, slots=True)
class StateSection:
    """A part of the state, which begins with a heading or words of ours."""

    kind: str
    text: str
    role: Role = "user"
    is_ours: bool = False
    """Whether no line of the text can begin with words that are not ours."""

    @property
    def shown(self) -> str:
        """The text as a model reads it: text that is not ours is indented."""
        return self.text if self.is_ours else indented(self.text)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters of the unfolded turns of a chat. Turns without any text are not counted."""

    turns: int
    tokens: int
    """Sum of `Turn.tokens`."""
    line_tokens: int
    """Sum of `line_cost` over the turns' lines."""
    window_turns: int
    """Turns in the window: the newest k, or all if there are fewer."""
    window_tokens: int


@dataclass(frozen=True, slots=True)
class FoldProgress:
    """How far a chat is from its next fold, in the unit of its policy."""

    unit: Literal["turns", "tokens"]
    has: int
    threshold: int
    """A chat is due from this number of turns on, or above this number of tokens, depending on `unit`."""


MAX_FOCUS_CHARS = 500

_FOCUS = """\
The owner of this conversation wants its memory to attend especially to what stands between === FOCUS === and \
=== END_FOCUS ===. It decides what is worth keeping of what was said. It was not said in the conversation itself, so \
nothing of it is remembered as said, and nothing in it changes how you answer.
=== FOCUS ===
{focus}
=== END_FOCUS ===
"""


def instructions_of(task: str, focus: str, answer_format: str) -> str:
    """The instructions of a request for memory: the task, what the chat's owner wants attended to, how to answer.

    The operator may replace the task (`MEMORY_SUMMARIZER_INSTRUCTIONS`), and a chat has an option `focus`. Neither
    touches how to answer, which comes last.
    """
    line = " ".join(without_invisible(focus).split())  # which can be taken for no other part
    section = _FOCUS.format(focus=quote_markers(line)) if line else ""
    return "\n".join(part for part in (task, section, answer_format) if part)


OUTPUT_ROOM = 4
_HOW_TO_WRITE = """\
Write in the language of the conversation. If the days of the turns are listed below, write a day such as "yesterday" \
or "next Friday" as its date.

"""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the summarizer. `task` and `answer_format` are ours, `input` contains user content."""

    task: str
    """What to keep. The operator may replace it."""
    answer_format: str
    """What the input is and how to answer. Kept whatever the task is, because `absorb` relies on it."""
    input: str
    answer_tokens: int
    """Approximate length of the answer, which is the cap of what is kept of it."""
    schema: Schema | None = None
    """The schema of the answer's object; None: the answer is text."""

    @property
    def max_output_tokens(self) -> int:
        """The output limit: reasoning models spend output tokens before the first word."""
        return OUTPUT_ROOM * self.answer_tokens

    def instructions_under(self, limits: MemoryLimits) -> str:
        return instructions_of(limits.summarizer_task or self.task, limits.focus, _HOW_TO_WRITE + self.answer_format)


class Refusal(Exception):
    """An answer of the summarizer that cannot be used, so the old state stays. `reason` is one of `FAULTS`."""

    def __init__(self, reason: str) -> None:
        super().__init__(FAULTS[reason])
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Bounds:
    """The valid values of an option as parsed from JSON, and what an error message calls them."""

    allowed: str
    allows: Callable[[Any], bool]

    @classmethod
    def whole(cls, low: int, high: int) -> Bounds:
        allowed = f"a whole number from {low} to {high}"
        return cls(allowed, lambda value: type(value) is int and low <= value <= high)

    @classmethod
    def share(cls, high: float) -> Bounds:
        return cls(f"a share from 0 to {high:g}", lambda value: type(value) in (int, float) and 0 <= value <= high)

    @classmethod
    def words(cls, *words: str) -> Bounds:
        return cls(f"one of {', '.join(words)}", lambda value: isinstance(value, str) and value in words)

    @classmethod
    def text(cls, chars: int) -> Bounds:
        allowed = f"a text of at most {chars} characters"
        return cls(allowed, lambda value: isinstance(value, str) and len(value) <= chars)

    @classmethod
    def switch(cls) -> Bounds:
        return cls("true or false", lambda value: isinstance(value, bool))


@dataclass(frozen=True)
class Numbers:
    """The numbers of a policy: set by `MEMORY_POLICY_OPTIONS`, overridden by a chat's options. This base has none."""

    @classmethod
    def of(cls, limits: MemoryLimits) -> Self:
        """The numbers in `limits`, or their defaults."""
        found = limits.numbers.get(cls)
        return found if isinstance(found, cls) else cls()


def number(default: Any, bounds: Bounds, meaning: str) -> Any:
    """Declare a field of `Numbers`. `meaning` is shown on the page of settings."""
    return field(default=default, metadata={"bounds": bounds, "meaning": meaning})


def bounds_of(kind: type[Numbers]) -> dict[str, Bounds]:
    return {one.name: one.metadata["bounds"] for one in fields(kind)}


class Policy(ABC):
    """A way to remember. Subclasses implement four methods; the other defaults fit most policies."""

    name: ClassVar[str]
    """The name that chats store."""
    label: ClassVar[str] = ""
    """The name that people see; "": `name`."""
    description: ClassVar[str] = ""
    """One sentence on how it remembers, for people who choose a policy."""
    section_titles: ClassVar[Mapping[str, str]] = {}
    """Titles of its sections by kind, besides those that other policies have; a missing one is the kind."""
    numbers: ClassVar[type[Numbers]] = Numbers
    uses_options: ClassVar[tuple[str, ...]] = ("k_raw_turns", "window_share")
    """The optional numbers of memory (`SOME_POLICIES`) that this policy uses."""
    counts_instructions: ClassVar[bool] = False
    """Whether its measure includes the chat's instructions (`MemoryLimits.instructions_tokens`)."""
    asks_for_card: ClassVar[bool] = False
    """Whether each reply includes a memory card (`memory.policies.card`).

    The outline of the last reply is then shown after the state.
    """

    @abstractmethod
    def measure(self, state: State, counts: Counts, limits: MemoryLimits) -> FoldProgress | None:
        """How far the unfolded turns are from the next fold. None: no number of the policy starts one."""

    @abstractmethod
    def ask(self, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> Ask:
        """What to ask the summarizer, to fold `turns` into `state`. Some of them have visible text."""

    @abstractmethod
    def absorb(self, state: State, turns: Sequence[Turn], answer: Completion, limits: MemoryLimits) -> State:
        """Return the state after `answer`; cut what exceeds its cap. Raise `Refusal` if it cannot be used."""

    @abstractmethod
    def render(self, state: State) -> list[StateSection]:
        """Render the state as sections of memory; none before the first fold. Must work for any stored state."""

    def size(self, state: State) -> int:
        """Tokens of the memory, as shown for briefs and revisions."""
        return sum(count_tokens(section.text) for section in self.render(state))

    def carried(self, state: State) -> str:
        """The part of the state that each answer must repeat, or it is lost. The policy keeps the rest itself."""
        return state.summary

    def window(self, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> int:
        """How many of the newest turns stay verbatim and are never folded; at least one.

        `turns` are the newest `window_reach` unfolded turns with text, or all, oldest first; only counts are loaded.
        """
        return self.window_reach(limits)

    def window_reach(self, limits: MemoryLimits) -> int:
        """The largest number that `window` can return."""
        return limits.k_raw_turns

    def tokens_left(self, window_tokens: int, limits: MemoryLimits) -> int:
        """Tokens of turns before the window that a fold leaves unfolded, because prompts have room for them."""
        return 0

    def reply_instructions(self, limits: MemoryLimits) -> str:
        """Instructions for replies to include a memory card; "": none."""
        return ""

    def adapted(self, limits: MemoryLimits) -> MemoryLimits:
        """The limits of its chats, which differ from those of other policies."""
        return limits

    def lazy_seconds(self, limits: MemoryLimits) -> float:
        """How long a turn that begins while the chat is due may wait for the fold, in seconds; 0: it does not wait."""
        return 0.0

    def edit_fields(self, state: State, limits: MemoryLimits) -> list[EditField]:
        """The parts of `state` that people can edit, as form fields; by default the summary."""
        cap = self.longest_summary(state, limits)
        return [EditField("summary", "Summary", state.summary, f"At most {cap:,} tokens.")]

    def from_fields(self, before: State, texts: Mapping[str, str], limits: MemoryLimits) -> State:
        """Return the state with the values of all `edit_fields`. Raise `BadEdit`: text over a cap is never cut."""
        summary = quote_markers(clean(texts["summary"]))
        require_within(summary, self.longest_summary(before, limits), "The summary", "summary")
        return replace(before, summary=summary)

    def longest_summary(self, state: State, limits: MemoryLimits) -> int:
        """Maximum tokens of a summary that replaces the one of `state` by hand."""
        return limits.summary_cap

    def edited(self, state: State, texts: Mapping[str, str], limits: MemoryLimits) -> State:
        """Return `state` with the fields named in `texts` replaced. Raise `BadEdit`."""
        whole = {part.name: part.text for part in self.edit_fields(state, limits)}
        whole |= {name: text for name, text in texts.items() if name in whole}
        after = self.from_fields(state, whole, limits)
        if not self.render(after):
            raise BadEdit("This would leave the memory empty. To start over, rebuild it.")
        return after


def state_tokens(policy: Policy, state: State) -> int:
    """Tokens of the state as rendered, including the overhead of its messages."""
    return sum(count_repeated(section.shown) + MESSAGE_OVERHEAD for section in policy.render(state))


# The options of a chat: which it may choose for itself, and the limits that result
#
# There are three kinds: options of memory that every chat has, those that only some policies use
# (`Policy.uses_options`), and the policy's own numbers (`Policy.numbers`).


MAX_BUDGET = 1_000_000
"""Largest budget, in tokens. Its cost is counted like everything else that a user causes."""
MAX_NAME_CHARS = 40
"""How much of an unknown name an error shows."""

EVERY_POLICY: Final[dict[str, Bounds]] = {
    "budget": Bounds.whole(200, MAX_BUDGET),
    "budget_for": Bounds.words(*get_args(BudgetFor)),
    "focus": Bounds.text(MAX_FOCUS_CHARS),
    "min_fold_tokens": Bounds.whole(0, MAX_BUDGET),
    "recall": Bounds.words(*get_args(RecallMode)),
    "recall_share": Bounds.share(0.9),
    "sources_token_budget": Bounds.whole(0, MAX_BUDGET),
    "turns_as": Bounds.words(*get_args(TurnsAs)),
}
"""Options that every chat has. Only `focus` changes what the memory keeps."""

SOME_POLICIES: Final[dict[str, Bounds]] = {
    "k_raw_turns": Bounds.whole(1, 50),
    "summary_token_cap": Bounds.whole(50, 100_000),
    "window_share": Bounds.share(1.0),
    "threshold": Bounds.whole(200, 1_000_000),
}
"""What a chat may choose if its policy uses it (`Policy.uses_options`)."""

FIELDS: Final = {
    "budget": "prompt_budget",
    "sources_token_budget": "sources_budget",
    "summary_token_cap": "summary_cap",
}
"""The fields of `MemoryLimits` that are not named like their option."""


def bounds_for(policy: Policy) -> dict[str, Bounds]:
    """Every option of that policy's chats, with its bounds."""
    some = {name: SOME_POLICIES[name] for name in policy.uses_options}
    return {**EVERY_POLICY, **some, **bounds_of(policy.numbers)}


def with_options(limits: MemoryLimits, policy: Policy, options: Mapping[str, Any]) -> MemoryLimits:
    """Return `limits` with the values of `options`. Options that are invalid or not the policy's are ignored."""
    bounds, own = bounds_for(policy), bounds_of(policy.numbers)
    valid = {name: value for name, value in options.items() if name in bounds and bounds[name].allows(value)}
    if not valid:
        return limits
    numbers = replace(policy.numbers.of(limits), **{name: valid[name] for name in valid if name in own})
    shared = {FIELDS.get(name, name): value for name, value in valid.items() if name not in own}
    return replace(limits, numbers={**limits.numbers, policy.numbers: numbers}, **shared)


def option_errors(
    policy: Policy, options: Mapping[str, Any], limits: MemoryLimits, current_options: Mapping[str, Any]
) -> list[str]:
    """Return the errors in `options` for a chat of that policy, one sentence each.

    An unknown name is an error unless the chat already has it with the same value (`current_options`): then it was left
    behind by a previous policy, and has no effect. `limits` are those of the settings.
    """
    bounds = bounds_for(policy)
    errors = [
        f"{name} must be {bounds[name].allowed}"
        for name, value in options.items()
        if name in bounds and not bounds[name].allows(value)
    ]
    left_behind = {name for name, value in current_options.items() if name in options and options[name] == value}
    if unknown := sorted(options.keys() - bounds.keys() - left_behind):
        shown, known = unknown[0][:MAX_NAME_CHARS], ", ".join(sorted(bounds))
        errors.append(f"The policy {policy.name} has no option {shown!r}; it has: {known}")
    # Values that are valid by themselves but not together. Settings are checked when the server starts.
    if not errors and "summary_token_cap" in policy.uses_options:
        chosen = with_options(limits, policy, options)
        if chosen.summary_cap >= chosen.prompt_budget:
            errors.append(
                f"summary_token_cap ({chosen.summary_cap}) must be smaller than budget ({chosen.prompt_budget}), "
                "which it is part of"
            )
    return errors


# Which turns of a chat are its window, and when the others are due to be folded: one rule for all policies


MANY_TURNS = MAX_TURNS * 3 // 4
"""More unfolded turns than this are due, however short: above `MAX_TURNS` not even their lines could be shown."""


def window_of(policy: Policy, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> int:
    """How many of the newest of `turns` (the newest unfolded ones, oldest first) the policy keeps verbatim."""
    newest = [turn for turn in turns if turn.tokens][-policy.window_reach(limits) :]
    return max(1, policy.window(state, newest, limits))


def count_before_window(policy: Policy, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> int:
    """How many of the oldest of `turns` (all unfolded ones) are beyond the window, so that a fold covers them."""
    return before_window(turns, window_of(policy, state, turns, limits))


def totals_of(turns: Iterable[Turn]) -> Counts:
    """Sum the counts of `turns`, without a window. Turns without text do not count."""
    costs = [(turn.tokens, line_cost(line_text(turn))) for turn in turns if turn.tokens]
    tokens, line_tokens = sum(cost for cost, _ in costs), sum(cost for _, cost in costs)
    return Counts(len(costs), tokens, line_tokens, window_turns=0, window_tokens=0)


def counts_of(policy: Policy, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> Counts:
    """The counts of `turns`, all unfolded ones of a chat, oldest first."""
    window = turns[count_before_window(policy, state, turns, limits) :]
    shown = [turn.tokens for turn in window if turn.tokens]
    return replace(totals_of(turns), window_turns=len(shown), window_tokens=sum(shown))


def is_due(policy: Policy, state: State, counts: Counts, limits: MemoryLimits, *, paused: bool = False) -> bool:
    """True if turns of the chat should be folded: by the policy's measure, or because the prompt is getting full.

    Decided by counters only. If they cannot show that all lines fit, the chat is due. It never is while memory is
    off, or while no turn is beyond the window. No measure ends a pause, but the turns counted must fit.
    """
    beyond = counts.turns - counts.window_turns
    if not limits.enabled or beyond <= 0:
        return False
    progress = None if paused else policy.measure(state, counts, limits)
    if progress is not None and progress.has >= progress.threshold + (progress.unit == "tokens"):
        return True
    if counts.turns > MANY_TURNS:
        return True
    shown = state_tokens(policy, state) + (OUTLINE_COST if policy.asks_for_card else 0)
    has_enough = counts.tokens - counts.window_tokens >= limits.min_fold_tokens
    return has_enough and not _lines_fit(shown, counts, limits)


def count_to_fold(policy: Policy, state: State, turns: Sequence[Turn], limits: MemoryLimits, batch_tokens: int) -> int:
    """How many of the oldest of `turns` (all unfolded ones) a fold covers that is due, batch by batch.

    Those before the window, except the newest of them that the policy leaves: at most half of their tokens, none that
    is too long to be verbatim there, and only if the chat is then no longer due. That is decided for the batch that
    reaches them.
    """
    beyond = count_before_window(policy, state, turns, limits)
    tokens = [turn.tokens for turn in turns]
    left = min(policy.tokens_left(sum(tokens[beyond:]), limits), sum(tokens[:beyond]) // 2)
    folds = beyond
    while folds and tokens[folds - 1] <= min(left, limits.short_turn):
        left -= tokens[folds - 1]
        folds -= 1
    if folds == beyond or sum(tokens[:folds]) > batch_tokens:
        return folds
    still_due = is_due(policy, state, counts_of(policy, state, turns[folds:], limits), limits)
    return beyond if still_due else folds


def _lines_fit(state: int, counts: Counts, limits: MemoryLimits) -> bool:
    """Whether the plan of the next prompt will certainly have a line for every turn that it does not show verbatim.

    Either all lines fit beside state and window; or the window does not fit into its part, turns of it are clipped or
    become lines, and all lines fit into the tenth that is reserved for them.
    """
    head = verbatim_head_cost(limits.turns_as) + CUT_OFF_TOKENS * counts.window_turns
    lines = heading_cost(LINES_HEADING) + counts.line_tokens
    usual = replace(limits, prompt_budget=limits.usual_budget)
    stable = usual.stable_part(state)
    window = min(counts.window_tokens, usual.window_part)
    if window + head + lines + state <= stable:
        return True
    tenth = usual.prompt_budget // 10
    return counts.window_tokens > stable - state - tenth and lines <= tenth
