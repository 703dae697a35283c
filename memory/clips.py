"""Sections of a state within what room there is: whole, cut, or left out. Counts alone, no texts."""

from __future__ import annotations

from collections.abc import Sequence

from memory.planned import Clips
from memory.tokens import MESSAGE_OVERHEAD

MIN_SECTION = 32
"""Tokens below which a clipped section of state would be little more than its heading."""


def clip_state(sections: Sequence[int], room: int) -> tuple[Clips, int]:
    """Give `room` to the sections in their order; the first that does not fit is clipped, later ones get
    the rest. Also how much of `room` was spent."""
    clips: list[int | None] = []
    left = max(0, room)
    for tokens in sections:
        if tokens <= left:
            clips.append(None)
            left -= tokens
        elif left >= MIN_SECTION:
            clips.append(left - MESSAGE_OVERHEAD)
            left = 0
        else:
            clips.append(0)
    return tuple(clips), max(0, room) - left
