"""The outline of the last reply, as a prompt shows it after the state (seed 002). How one is made is `salience`'s."""

from __future__ import annotations

from typing import Final

from memory.policies.protocol import StateSection
from memory.quoting import quote_markers
from memory.tokens import MESSAGE_OVERHEAD, clip_end

OUTLINE: Final = "Previous response outline: "
"""Before the outline, to the letter of seed 002."""

OUTLINE_TOKENS: Final = 104
"""The longest outline, with what stands before it: 400 characters are about 100 tokens (seed 002), but not always."""

OUTLINE_COST: Final = OUTLINE_TOKENS + MESSAGE_OVERHEAD
"""The most that an outline costs in a prompt."""


def outline_sections(outline: str) -> list[StateSection]:
    """The section that shows `outline`; none for an empty one."""
    if not outline:
        return []
    return [StateSection("outline", clip_end(OUTLINE + quote_markers(outline), OUTLINE_TOKENS))]
