"""Makers of turns for the pure tests of folding."""

from __future__ import annotations

from dataclasses import replace

from memory.history.turns import Turn

EMPTY = Turn(1, 2, "", "", False, 0, 0, (), None)


def turn(user: str, assistant: str = "") -> Turn:
    """Make a turn with these two texts."""
    return replace(EMPTY, user=user, assistant=assistant)
