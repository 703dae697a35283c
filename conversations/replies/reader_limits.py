"""Limit the readers of a user's replies that one process serves at the same time.

Counted only in this process: reading writes nothing, so there is no row to count in, and the purpose is to limit this
process's own work. The reader that begins a turn is not counted; the limit on simultaneous replies covers those.
"""

from __future__ import annotations

import threading
from weakref import WeakSet

from conversations.accounts.limits import RETRY_SOON_SECONDS, LimitRefusal
from conversations.accounts.windows import refusal_error


class ReaderSlot:
    """One reader, counted until `release` or until the object is gone, such as when its response never began."""

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
    """Return a slot for one more reader of that user. Raises `RateLimited` if `allowed` are taken; 0 means no limit."""
    with _lock:
        slots = _taken.setdefault(user_id, WeakSet())
        if allowed and len(slots) >= allowed:
            raise refusal_error(LimitRefusal("readers", allowed, RETRY_SOON_SECONDS), user_id)
        slot = ReaderSlot(user_id)
        slots.add(slot)
        return slot


_taken: dict[int, WeakSet[ReaderSlot]] = {}
_lock = threading.Lock()
"""Needed because responses are closed in other threads than the loop's."""
