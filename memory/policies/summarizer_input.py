"""The summarizer's input for folding turns (seed 000, section 5.2.4). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from chatmemory.llm.summarizer_input import write_summarizer_input
from memory.history.turns import Turn, assistant_text


def summarizer_input(existing: str, turns: Sequence[Turn]) -> str:
    """The request to fold `turns` into `existing`, exactly in the seed's format. Turns without text are left out."""
    return write_summarizer_input(existing, [(turn.user, assistant_text(turn)) for turn in turns])
