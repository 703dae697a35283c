"""The limits of memory, as one value. Knows nothing of where they come from (settings, options of a chat)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

TurnsAs = Literal["messages", "text"]
BudgetFor = Literal["memory", "prompt"]
RecallMode = Literal["auto", "always", "off"]

RECALL_MODES: tuple[RecallMode, ...] = ("auto", "always", "off")

RECALL_NEW_SHARE = 0.7
"""Share of the weight of a message's words that the rest of the prompt must lack for the message to call for recall."""
RECALL_SOME_SHARE = 0.1
"""Share of the prompt's budget for excerpts that are context rather than an answer."""

SHORT_SHARE = 0.2
"""Share of the prompt's budget: a turn before the window that costs more is never verbatim, because one long reply
would displace many lines and excerpts."""

MAX_TURNS = 200
"""Turns that a context considers, however long the unfolded span is. Of older ones, only their number is known."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """The limits of memory, in tokens unless noted. The defaults are those of the public settings."""

    k_raw_turns: int = 3
    """Newest turns that are sent verbatim and never folded."""
    summary_cap: int = 500
    prompt_budget: int = 3000
    """Budget of memory as rendered, without instructions, sources and the question."""
    budget_for: BudgetFor = "memory"
    """With `prompt`, the budget is for all that the model is sent (`memory.context.prompt_budget`)."""
    threshold: int = 6000
    """A chat is due when its state and unfolded turns exceed this."""
    line_tokens: int = 40
    bite_tokens: int = 6000
    """Maximum tokens of turns in one request to the summarizer."""
    min_fold_tokens: int = 1000
    """Tokens that there must be beyond the window before a chat is due because its lines do not fit."""
    recall: RecallMode = "auto"
    """When earlier turns are searched: if the question calls for it, for every question, or never."""
    recall_share: float = 0.2
    """Share of the prompt's budget that is reserved for excerpts of earlier turns; 0: nothing is recalled."""
    recall_request_share: float = RECALL_NEW_SHARE
    """The same share, for requests; a policy chooses it."""
    recall_some_share: float = RECALL_SOME_SHARE
    """A policy chooses it."""
    window_share: float = 0.4
    """Largest share of the prompt's budget for the window, to which long replies are clipped; 1: no such limit."""
    sources_budget: int = 4000
    turns_as: TurnsAs = "messages"
    enabled: bool = True
    """False: only a sliding window of the newest turns."""
    instructions_tokens: int = 0
    """Tokens of the chat's own instructions, if they count: for some policies, and in a budget for the whole prompt."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Each policy's own numbers by its name (`memory.policies.numbers`). A policy that is missing uses its defaults."""

    @property
    def usual_budget(self) -> int:
        """The budget that memory can expect in the next prompt: a tenth is reserved for the question, still unknown."""
        if self.budget_for == "memory":
            return self.prompt_budget
        return max(0, self.prompt_budget * 9 // 10 - self.instructions_tokens)

    @property
    def recalls(self) -> bool:
        """Whether earlier turns are searched at all."""
        return self.enabled and self.recall != "off" and self.recall_share > 0

    @property
    def recall_part(self) -> int:
        """Tokens reserved for excerpts."""
        return int(self.prompt_budget * self.recall_share) if self.recalls else 0

    @property
    def short_turn(self) -> int:
        """Maximum tokens of a turn that may be verbatim before the window."""
        return int(self.prompt_budget * SHORT_SHARE)

    @property
    def window_part(self) -> int:
        """Maximum tokens of the window."""
        return int(self.prompt_budget * self.window_share)

    def stable_part(self, state_tokens: int) -> int:
        """Tokens for all that stays the same from one question to the next: state, lines and verbatim turns.

        If a state needs more than a third of them, the excess is taken from the excerpts instead of from the turns.
        """
        stable = self.prompt_budget - self.recall_part
        return min(self.prompt_budget, stable + max(0, state_tokens - stable // 3))
