"""The limits of memory, as one value. Knows nothing of where they come from (settings, options of a chat)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chatmemory.config.declared import BudgetFor, RecallMode, TurnsAs

MAX_TURNS = 200
"""Turns that a context considers, however long the unfolded span is. Of older ones, only their number is known."""

OPEN_TURN_BUDGETS = 4
"""How many times the budget of memory an open turn may have: an agent needs what it has just looked up."""

SHORT_SHARE = 0.2
"""Share of the prompt's budget: a turn before the window that costs more is never verbatim, because one long reply
would displace many lines and excerpts."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """The limits of memory, in tokens unless noted. The defaults are the defaults of the settings."""

    k_raw_turns: int = 3
    """Newest turns that are sent verbatim and never folded."""
    summary_cap: int = 500
    prompt_budget: int = 3000
    """Budget of memory as rendered, without instructions, sources and the question."""
    budget_for: BudgetFor = "memory"
    """With `prompt`, the budget is for all that the model is sent (`memory.context.prompt.memory_limits`)."""
    threshold: int = 6000
    """A chat is due when its state and unfolded turns exceed this."""
    line_tokens: int = 40
    batch_tokens: int = 6000
    """Maximum tokens of turns in one request to the summarizer."""
    min_fold_tokens: int = 1000
    """Tokens that there must be beyond the window before a chat is due because its lines do not fit."""
    recall: RecallMode = "auto"
    """When earlier turns are searched: if the question calls for it, for every question, or never."""
    recall_share: float = 0.2
    """Share of the prompt's budget that is reserved for excerpts of earlier turns; 0: nothing is recalled."""
    recall_some_share: float = 0.1
    """Share of the prompt's budget for excerpts that are context rather than an answer. A policy may change it."""
    window_share: float = 0.4
    """Largest share of the prompt's budget for the window, to which long replies are clipped; 1: no such limit."""
    sources_budget: int = 4000
    turns_as: TurnsAs = "messages"
    summarizer_task: str = ""
    """Instructions to the summarizer, in place of the policy's own."""
    focus: str = ""
    """What the chat's owner wants memory to attend to in particular (`memory.policies.protocol`)."""
    enabled: bool = True
    """False: only a sliding window of the newest turns."""
    instructions_tokens: int = 0
    """Tokens of the chat's own instructions, if they count: for some policies, and in a budget for the whole prompt."""
    numbers: Mapping[type, Any] = field(default_factory=dict)
    """Policies' own numbers by their class (`memory.policies.protocol.Numbers`). A missing one has its defaults."""

    @property
    def usual_budget(self) -> int:
        """The budget that memory can expect in the next prompt: a tenth is reserved for the question, still unknown."""
        if self.budget_for == "memory":
            return self.prompt_budget
        return max(0, self.prompt_budget * 9 // 10 - self.instructions_tokens)

    @property
    def open_turn_budget(self) -> int:
        """Tokens of an open turn: the calls of tools since the question, with their outputs."""
        if self.budget_for == "prompt":
            return self.prompt_budget // 2
        return OPEN_TURN_BUDGETS * self.prompt_budget

    @property
    def recalls(self) -> bool:
        """Whether earlier turns are searched at all."""
        return self.enabled and self.recall != "off" and self.recall_share > 0

    # How a prompt's budget is shared out: the plan of a prompt spends these parts, and what is due is predicted by them

    @property
    def excerpts_part(self) -> int:
        """Tokens reserved for excerpts."""
        return int(self.prompt_budget * self.recall_share) if self.recalls else 0

    @property
    def some_room(self) -> int:
        """Tokens that excerpts may have if they are context rather than an answer."""
        return int(self.prompt_budget * self.recall_some_share)

    @property
    def window_part(self) -> int:
        """Maximum tokens of the window."""
        return int(self.prompt_budget * self.window_share)

    @property
    def short_turn(self) -> int:
        """Maximum tokens of a turn that may be verbatim before the window."""
        return int(self.prompt_budget * SHORT_SHARE)

    def stable_part(self, state_tokens: int) -> int:
        """Tokens for all that stays the same from one question to the next: state, lines and verbatim turns.

        If a state needs more than a third of them, the excess is taken from the excerpts instead of from the turns.
        """
        stable = self.prompt_budget - self.excerpts_part
        return min(self.prompt_budget, stable + max(0, state_tokens - stable // 3))
