"""Select which statements of a message to pin: not those that could steer a model against its reader. Pure.

A pin is part of every later prompt. So a sentence that is worded like an injected order to a model, or that contains
a link, is not pinned by rule: somebody may have pasted it. A user who means it can pin it by hand.
"""

from __future__ import annotations

from collections.abc import Sequence

from chatmemory.text.injections import KnownOrders
from chatmemory.text.links import links_in
from memory.pins.statements import Statement, statements

HARMLESS = frozenset({"recasts", "restricts"})
"""Kinds of orders that can also be a wish about replies ("from now on you …", "answer only with …")."""

_NOTHING_KNOWN = KnownOrders(())


def statements_to_pin(text: str) -> Sequence[Statement]:
    """Return the statements of a user's message that may be pinned, in order."""
    return [one for one in statements(text) if not links_in(one.text) and not _is_order(one.text)]


def _is_order(text: str) -> bool:
    return bool(_NOTHING_KNOWN.new_in(text) - HARMLESS)
