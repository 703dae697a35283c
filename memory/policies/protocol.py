"""What a policy is: a way to remember, as four pure decisions over values. Which policies there are is not
known here.

A policy never sees a database, a clock or a model. It says what is to fold, what to ask the summarizer,
what to make of the answer, and how its state reads in a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from chatmemory.llm.protocol import Completion, Role
from memory.limits import MemoryLimits
from memory.turns import Turn

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

Fault = Literal["empty", "truncated", "refused", "error_text", "wrong_shape"]


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


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the summarizer. `instructions` are ours, `input` is what people said."""

    instructions: str
    input: str
    max_output_tokens: int


class Refusal(Exception):
    """An answer of the summarizer that cannot be taken: the old state stands. `reason` says why, for logs
    and staff."""

    def __init__(self, reason: Fault) -> None:
        super().__init__(f"the summarizer's answer is not usable: {reason}")
        self.reason: Fault = reason


class Policy(Protocol):
    """One way to remember."""

    @property
    def name(self) -> str:
        """As chats store it."""
        ...

    def window(self, limits: MemoryLimits) -> int:
        """Newest turns that stay verbatim and are never folded."""
        ...

    def state_tokens(self, state: State) -> int:
        """Tokens of the state as rendered, overhead of its messages included."""
        ...

    def over_threshold(self, state: State, counts: Counts, limits: MemoryLimits) -> bool:
        """True if the policy's own measure says that turns are to be folded."""
        ...

    def to_fold(
        self, state: State, turns: Sequence[Turn], limits: MemoryLimits, *, force: bool = False
    ) -> int:
        """How many of the oldest of `turns` (all unfolded ones) are to fold now; `force`: all before the
        window."""
        ...

    def ask(self, state: State, turns: Sequence[Turn], limits: MemoryLimits) -> Ask:
        """What to ask the summarizer, to fold `turns` into `state`."""
        ...

    def absorb(
        self, state: State, turns: Sequence[Turn], completion: Completion, limits: MemoryLimits
    ) -> State:
        """The state after `completion`. Raises `Refusal` on a hard fault; what is over its cap is cut."""
        ...

    def render(self, state: State) -> list[StateSection]:
        """The state as sections of memory; none before the first fold."""
        ...
