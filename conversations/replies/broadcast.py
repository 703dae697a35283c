"""Wake the readers of a reply, in batches if there are many.

Each reader that wakes encodes and writes on the loop that also serves all other requests. So a small audience is
woken at once, and a large one in batches with a pause in between, one batch at a time in the whole process, which
leaves time for other requests. Late readers find more text and read it in one piece, so nothing piles up.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from weakref import WeakSet

BATCH = 16
"""Readers woken together. An audience of at most this size is woken without a pause."""
PAUSE_SECONDS = 0.005
"""Minimum pause between two batches. It is longer if the loop is late, so that other work gets as much time."""


class Broadcast:
    """The readers that wait for one reply to grow. To be used on the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._woken_at = asyncio.get_running_loop().time()
        self._timer: asyncio.TimerHandle | None = None
        _all.add(self)

    async def changed(self, seconds: float) -> bool:
        """Wait until there is more to read. Return False if nothing came for `seconds`, the same for all readers."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(future)
        if self._timer is None:
            self._timer = loop.call_later(seconds, self._silent, seconds)
        try:
            return await future
        finally:
            if future.cancelled() and future in self._waiting:
                self._waiting.remove(future)

    def wake(self, *, more: bool = True) -> None:
        """Wake all readers that wait now: there is `more`, or nothing came for so long that a keep-alive is due."""
        self._woken_at = asyncio.get_running_loop().time()
        if len(self._waiting) <= BATCH and self not in _crowded:
            self._release(BATCH, more)
        else:
            _wake_in_batches(self, more)

    def close(self) -> None:
        """Wake all readers for the last time."""
        self.wake()
        if self._timer is not None:
            self._timer.cancel()

    def _silent(self, seconds: float) -> None:
        """Wake the readers if nothing came for `seconds`. One timer for all: one per wait took a tenth of all time."""
        waits = self._woken_at + seconds - asyncio.get_running_loop().time()
        self._timer = None
        if waits <= 0:
            self.wake(more=False)
        elif self._waiting:
            self._timer = asyncio.get_running_loop().call_later(waits, self._silent, seconds)

    def _release(self, count: int, more: bool) -> int:
        """Wake up to `count` of the longest waiting readers; return how many were woken."""
        woken = 0
        while self._waiting and woken < count:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(more)
            woken += 1
        return woken


def wake_all() -> None:
    """Wake every reader in this process, for an event that does not concern only one reply."""
    for broadcast in list(_all):
        broadcast.wake()


_all: WeakSet[Broadcast] = WeakSet()
_crowded: dict[Broadcast, tuple[int, bool]] = {}
"""Broadcasts with many readers: how many are still to be woken, and with which result."""
_pacing: asyncio.Task[None] | None = None


def _wake_in_batches(broadcast: Broadcast, more: bool) -> None:
    global _pacing  # one per process
    _, before = _crowded.get(broadcast, (0, False))
    _crowded[broadcast] = (len(broadcast._waiting), more or before)
    if _pacing is None or _pacing.done():
        _pacing = asyncio.get_running_loop().create_task(_pace(), context=contextvars.Context())


async def _pace() -> None:
    """Wake a batch of each large audience in turn, until all are awake."""
    loop = asyncio.get_running_loop()
    while _crowded:
        broadcast, (left, more) = next(iter(_crowded.items()))
        del _crowded[broadcast]
        left -= broadcast._release(min(BATCH, left), more) or left
        if left:
            _crowded[broadcast] = (left, more)
        begun = loop.time()
        await asyncio.sleep(PAUSE_SECONDS)
        if (late := loop.time() - begun - PAUSE_SECONDS) > PAUSE_SECONDS:
            await asyncio.sleep(late)
