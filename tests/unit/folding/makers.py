"""Turns as the pure parts of folding read them."""

from __future__ import annotations

from dataclasses import replace

from memory.history.turns import Turn

EMPTY = Turn(1, 2, "", "", False, 0, 0, (), None)


def turn(user: str, assistant: str = "") -> Turn:
    """A turn in which this was said."""
    return replace(EMPTY, user=user, assistant=assistant)
