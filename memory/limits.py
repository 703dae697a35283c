"""The numbers of memory, as one value. Where they come from (settings, options of a chat) is not known
here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

TurnsAs = Literal["messages", "text"]
BudgetFor = Literal["memory", "prompt"]
RecallMode = Literal["auto", "always", "off"]

RECALL_MODES: tuple[RecallMode, ...] = ("auto", "always", "off")

MAX_TURNS = 200
"""Turns that a context looks at, however long the unfolded span is. Older ones are known by their number
alone."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """What memory may cost, in tokens where nothing else is said. The defaults are those of the public
    settings."""

    k_raw_turns: int = 3
    """Newest turns that are sent verbatim and never folded."""
    summary_cap: int = 500
    prompt_budget: int = 3000
    """For memory alone, as rendered: not instructions, sources and the question."""
    budget_for: BudgetFor = "memory"
    """`prompt`: the budget is for all that the model is sent (`memory.context.prompt_budget`)."""
    threshold: int = 6000
    """State and unfolded turns above this are due."""
    line_tokens: int = 40
    bite_tokens: int = 6000
    """Of turns, in one request to the summarizer."""
    min_fold_tokens: int = 1000
    """Beyond the window, before lines that do not fit make a chat due."""
    recall: RecallMode = "auto"
    """When earlier turns are searched: where the question calls for it, for every question, or never."""
    recall_share: float = 0.2
    """Of the prompt's budget, kept for excerpts of earlier turns; 0: nothing is recalled."""
    window_share: float = 0.4
    """Of the prompt's budget, the most that the window has, so that long replies are clipped; 1: whole if at all."""
    sources_budget: int = 4000
    turns_as: TurnsAs = "messages"
    enabled: bool = True
    """False: a sliding window of the newest turns, and nothing else."""
    instructions_tokens: int = 0
    """Of the chat's own instructions, where they count: for some policies, and in a budget for the whole prompt."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Each policy's own numbers by its name (`memory.policies.numbers`); one that is missing has its defaults."""

    @property
    def usual_budget(self) -> int:
        """What memory can count on in the next prompt, whose question nobody knows yet: a tenth is taken for that."""
        if self.budget_for == "memory":
            return self.prompt_budget
        return max(0, self.prompt_budget * 9 // 10 - self.instructions_tokens)

    @property
    def recalls(self) -> bool:
        """Whether earlier turns are searched at all."""
        return self.enabled and self.recall != "off" and self.recall_share > 0

    @property
    def recall_part(self) -> int:
        """Tokens kept for excerpts."""
        return int(self.prompt_budget * self.recall_share) if self.recalls else 0

    @property
    def window_part(self) -> int:
        """Tokens that the window has at most."""
        return int(self.prompt_budget * self.window_share)

    def stable_part(self, state_tokens: int) -> int:
        """Tokens for all that stays the same from one question to the next: state, lines and turns verbatim.

        What a state takes beyond a third of it, it takes from the excerpts instead of from the turns.
        """
        stable = self.prompt_budget - self.recall_part
        return min(self.prompt_budget, stable + max(0, state_tokens - stable // 3))
