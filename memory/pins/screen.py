"""What of a message is to be pinned: its statements, less what could steer a model against its reader. Pure.

What is pinned stands in every later prompt. So a sentence that is an order to a model as attacks are written, or that
brings a link, is not pinned by rule: somebody may have pasted it. Who means it can pin it by hand.
"""

from __future__ import annotations

from collections.abc import Sequence

from chatmemory.text.injections import KnownOrders
from chatmemory.text.links import links_in
from memory.pins.statements import Statement, statements

HARMLESS = frozenset({"recasts", "restricts"})
"""Kinds of orders that a wish about replies may be, too ("from now on you …", "answer only with …")."""

_NOTHING_KNOWN = KnownOrders(())


def to_pin(text: str) -> Sequence[Statement]:
    """The statements of a user's message that may be pinned, in its order."""
    return [one for one in statements(text) if not links_in(one.text) and not _is_order(one.text)]


def _is_order(text: str) -> bool:
    return bool(_NOTHING_KNOWN.new_in(text) - HARMLESS)
