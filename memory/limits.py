"""The numbers of memory, as one value. Where they come from (settings, options of a chat) is not known
here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

TurnsAs = Literal["messages", "text"]

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
    threshold: int = 6000
    """State and unfolded turns above this are due."""
    line_tokens: int = 40
    bite_tokens: int = 6000
    """Of turns, in one request to the summarizer."""
    min_fold_tokens: int = 1000
    """Beyond the window, before lines that do not fit make a chat due."""
    recall_share: float = 0.33
    """Of the prompt's budget, for excerpts of earlier turns; 0: nothing is recalled."""
    sources_budget: int = 4000
    turns_as: TurnsAs = "messages"
    enabled: bool = True
    """False: a sliding window of the newest turns, and nothing else."""
    instructions_tokens: int = 0
    """Of the chat's own instructions, for policies that count them."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Each policy's own numbers by its name (`memory.policies.numbers`); one that is missing has its defaults."""
