"""The summarizer's input for folding turns (seed 000, section 5.2.4). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from chatmemory.text.markers import quote_markers
from memory.history.turns import Turn, assistant_text

NO_SUMMARY = "NONE"
"""Replaces the existing summary if there is none (seed 000 section 5.2.4)."""


def summarizer_input(existing: str, turns: Sequence[Turn]) -> str:
    """The request to fold `turns` into `existing`, exactly in the seed's format. Turns without text are left out."""
    sides = [_sides(turn.user, assistant_text(turn)) for turn in turns]
    blocks = [f"Turn {number}:\n{text}" for number, text in enumerate(filter(None, sides), start=1)]
    said = "\n\n".join(blocks)
    return (
        f"=== EXISTING_SUMMARY ===\n{quote_markers(existing) or NO_SUMMARY}\n=== END_EXISTING_SUMMARY ===\n\n"
        f"=== NEW_TURNS ===\n{said}\n=== END_NEW_TURNS ==="
    )


def _sides(user: str, assistant: str) -> str:
    sides = (("User", user), ("Assistant", assistant))
    return "\n".join(f"{name}: {quote_markers(text)}" for name, text in sides if text)
