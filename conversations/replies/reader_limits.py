"""How many readers of a user's replies one process serves at the same time.

Counted in this process alone: reading writes nothing, so there is no row to count in, and what is to be bounded is this
process's own work. The reader that a turn begins with is not counted; the limit on answers at once bounds those.
"""

from __future__ import annotations

import threading
from weakref import WeakSet

from conversations.accounts import quotas
from conversations.accounts.limits import SOON, LimitRefusal


class ReaderSlot:
    """One reader, for as long as the object lives or until `release`: also one whose answer never began."""

    def __init__(self, user_id: int) -> None:
        self.user_id = user_id

    def release(self) -> None:
        with _lock:
            slots = _taken.get(self.user_id)
            if slots is not None:
                slots.discard(self)
                if not slots:
                    del _taken[self.user_id]


def take(user_id: int, allowed: int) -> ReaderSlot:
    """A slot for one more reader of that user. Raises `RateLimited` where `allowed` are taken; 0: no limit."""
    with _lock:
        slots = _taken.setdefault(user_id, WeakSet())
        if allowed and len(slots) >= allowed:
            raise quotas.refused(LimitRefusal("readers", allowed, SOON), user_id)
        slot = ReaderSlot(user_id)
        slots.add(slot)
        return slot


_taken: dict[int, WeakSet[ReaderSlot]] = {}
_lock = threading.Lock()
"""Responses are closed in other threads than the loop's."""
