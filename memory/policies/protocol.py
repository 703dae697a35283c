"""What a policy is: a way to remember, as four pure decisions over values. Which policies there are is not
known here.

A policy never sees a database, a clock or a model. It says when turns are due, what to ask the summarizer,
what to make of the answers, how its state reads in a prompt, and how people edit it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias

from chatmemory.llm.protocol import Completion, Role, Schema
from chatmemory.text.markers import quote_markers
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_repeated, count_tokens
from memory.history.turns import Turn
from memory.limits import MemoryLimits, RecallMode
from memory.policies.edit_form import MANY_ROWS, BadEdit, EditField, clean, require_within
from memory.policies.numbers import Numbers

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

Fault = Literal[
    "empty", "truncated", "refused", "error_text", "wrong_shape", "new_url", "new_instruction", "unsaid"
]

FAULTS: dict[Fault, str] = {
    "empty": "The summarizer's answer is empty.",
    "truncated": "The summarizer's answer breaks off at its output limit. A model that reasons may need a higher "
    "MEMORY_SUMMARIZER_OUTPUT_TOKENS.",
    "refused": "The summarizer refused to answer.",
    "error_text": "The summarizer answered with an error message.",
    "wrong_shape": "The summarizer's answer is not the JSON object that it was asked for.",
    "new_url": "The answer has a link or an address that nobody gave.",
    "new_instruction": "The answer has an order to the model that nobody said.",
    "unsaid": "The answer has only what its turn's sources or instructions say, and nobody said.",
}
"""What each means, for staff."""


@dataclass(frozen=True, slots=True)
class State:
    """What a policy remembers of all folded turns. `summary` has a column of its own; `data` is the
    policy's."""

    summary: str = ""
    data: Mapping[str, JSON] = field(default_factory=dict)
    version: int = 1
    """Of the shape of `data`."""

    def to_json(self) -> dict[str, JSON]:
        """`data` and its version, for storage beside the summary."""
        return {"version": self.version, "data": dict(self.data)}

    @classmethod
    def from_json(cls, summary: str, stored: Mapping[str, JSON]) -> State:
        """The state from its two columns. A chat that has never been folded stores `{}`."""
        data, version = stored.get("data"), stored.get("version")
        return cls(
            summary, data if isinstance(data, dict) else {}, version if isinstance(version, int) else 1
        )


@dataclass(frozen=True, slots=True)
class StateSection:
    """A part of the state as the model reads it: heading included, marker lines already quoted."""

    kind: str
    text: str
    role: Role = "user"


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
    newest_tokens: int = 0
    """Of the newest turn; 0 if not known: then it is taken for as large as the whole window."""

    def without(self, older: Counts) -> Counts:
        """Of the turns that came after `older`: the newest ones, so the window stays."""
        return replace(
            self,
            turns=max(0, self.turns - older.turns),
            tokens=max(0, self.tokens - older.tokens),
            line_tokens=max(0, self.line_tokens - older.line_tokens),
        )


@dataclass(frozen=True, slots=True)
class FoldProgress:
    """How far a chat is on its way to the next fold, by the measure of its policy."""

    unit: Literal["turns", "tokens"]
    has: int
    threshold: int
    """So many turns are enough; of tokens it takes more."""

    @property
    def is_over(self) -> bool:
        return self.has >= self.threshold + (self.unit == "tokens")


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the summarizer. `instructions` are ours, `input` is what people said."""

    instructions: str
    input: str
    max_output_tokens: int
    answer_tokens: int = 0
    """About how long the answer is to be, the cap of what is kept of it; 0: not said."""
    schema: Schema | None = None
    """The object that the answer is to be; None: text."""
    is_optional: bool = False
    """A failure of this request fails nothing: the policy goes on with None for its answer."""
    takes_hosted: bool = False
    """The operator's hosted summary prompt, where there is one, asks for the same."""


Answers: TypeAlias = "Sequence[Completion | None]"
"""The answers so far to what a policy asked for one fold, in order; None: an optional request failed."""


class Refusal(Exception):
    """An answer of the summarizer that cannot be taken: the old state stands. `reason` says why, for logs
    and staff."""

    def __init__(self, reason: Fault) -> None:
        super().__init__(FAULTS[reason])
        self.reason: Fault = reason


class Policy(ABC):
    """One way to remember. Four things it must say; the rest has defaults that fit most."""

    name: ClassVar[str]
    """As chats store it."""
    label: ClassVar[str] = ""
    """As people choose it; "": its name."""
    description: ClassVar[str] = ""
    """One sentence on how it remembers, for people who choose."""
    section_titles: ClassVar[Mapping[str, str]] = {}
    """What its sections are called, by their kind; one that is missing is called by its kind."""
    numbers: ClassVar[type[Numbers]] = Numbers
    """Its own numbers: settings with the prefix `MEMORY_<NAME>_`, and options of a chat."""
    goes_by: ClassVar[tuple[str, ...]] = ("k_raw_turns", "window_share")
    """Those of memory's numbers that only some policies go by (`memory.policies.options`), and this one does."""
    counts_instructions: ClassVar[bool] = False
    """Its measure includes the chat's instructions (`MemoryLimits.instructions_tokens`)."""
    window_first: ClassVar[bool] = False
    """Its window is shown as far as the budget goes (`MemoryLimits.window_share` does not hold)."""
    shows_outline: ClassVar[bool] = False
    """The outline of the last reply stands after the state."""
    asks_for_card: ClassVar[bool] = False
    """Replies carry what is remembered of their turn (`memory.policies.card.policy`)."""

    @abstractmethod
    def measure(self, state: State, counts: Counts, limits: MemoryLimits) -> FoldProgress | None:
        """How far the unfolded turns are on their way to the next fold. None: by no number of the policy's own."""

    @abstractmethod
    def ask(
        self, state: State, turns: Sequence[Turn], limits: MemoryLimits, answers: Answers = ()
    ) -> Ask | None:
        """What to ask the summarizer next, to fold `turns` into `state`. None: `answers` are enough."""

    @abstractmethod
    def absorb(self, state: State, turns: Sequence[Turn], answers: Answers, limits: MemoryLimits) -> State:
        """The state after `answers`. Raises `Refusal` on a hard fault; what is over its cap is cut."""

    @abstractmethod
    def render(self, state: State) -> list[StateSection]:
        """The state as sections of memory; none before the first fold. Any stored state at all renders."""

    def over_threshold(self, state: State, counts: Counts, limits: MemoryLimits) -> bool:
        """True if the policy's own measure says that turns are to be folded, and some lie beyond the window."""
        if counts.turns <= counts.window_turns:
            return False
        progress = self.measure(state, counts, limits)
        return progress is not None and progress.is_over

    def size(self, state: State) -> int:
        """Tokens of what is remembered, as briefs and revisions tell it."""
        return sum(count_tokens(section.text) for section in self.render(state))

    def carried(self, state: State) -> str:
        """What of the state each answer has to say again, or it is lost. The rest the policy keeps by itself."""
        return state.summary

    def window(self, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> int:
        """How many of the newest turns stay verbatim and are never folded; at least one.

        `turns` are the newest unfolded ones with text, oldest first, by counts alone: `window_reach` of them, or all.
        """
        return self.window_reach(limits)

    def window_reach(self, limits: MemoryLimits) -> int:
        """The most turns that `window` can come to."""
        return limits.k_raw_turns

    def rereads(self, limits: MemoryLimits) -> bool:
        """True if each fold is to read all originals again, from the first."""
        return False

    def recall_mode(self, limits: MemoryLimits) -> RecallMode:
        """When earlier turns are searched."""
        return limits.recall

    def lazy_seconds(self, limits: MemoryLimits) -> float:
        """How long a turn that begins while the chat is due may wait for the fold; 0: it does not."""
        return 0.0

    def edit_fields(self, state: State, limits: MemoryLimits) -> list[EditField]:
        """What of `state` a person can edit, as fields of a form: by default the summary."""
        cap = self.longest_summary(state, limits)
        return [EditField("summary", "Summary", state.summary, f"At most {cap:,} tokens.", MANY_ROWS, cap)]

    def from_fields(self, before: State, texts: Mapping[str, str], limits: MemoryLimits) -> State:
        """The state that all the fields of `edit_fields` say. Raises `BadEdit`: what is over a cap is never cut."""
        summary = quote_markers(clean(texts["summary"]))
        require_within(summary, self.longest_summary(before, limits), "The summary", "summary")
        return replace(before, summary=summary)

    def longest_summary(self, state: State, limits: MemoryLimits) -> int:
        """The most tokens of a summary that is edited in place of the one of `state`."""
        return limits.summary_cap

    def edited(self, state: State, texts: Mapping[str, str], limits: MemoryLimits) -> State:
        """`state` with the fields that `texts` names replaced. Raises `BadEdit`."""
        whole = {part.name: part.text for part in self.edit_fields(state, limits)}
        whole |= {name: text for name, text in texts.items() if name in whole}
        after = self.from_fields(state, whole, limits)
        if not self.render(after):
            raise BadEdit("This would leave the memory empty. To start over, rebuild it.")
        return after


def state_tokens(policy: Policy, state: State) -> int:
    """Tokens of the state as rendered, overhead of its messages included."""
    return sum(count_repeated(section.text) + MESSAGE_OVERHEAD for section in policy.render(state))


def text_in(value: Any) -> str:
    """A text of a stored state; "" for anything else."""
    return value if isinstance(value, str) else ""
