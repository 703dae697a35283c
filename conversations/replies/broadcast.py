"""Waking the readers of a reply, a few at a time where they are many.

Each reader that wakes encodes and writes, on the loop that also serves everybody else. So a small audience is woken at
once, and a large one in batches with a pause between them, one batch at a time in the whole process: whatever is read,
other requests get their turn. Readers that come late find more text and read it in one piece, so nothing piles up.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from weakref import WeakSet

BATCH = 16
"""Readers that are woken together; as many are woken without a pause."""
PAUSE_SECONDS = 0.005
"""Between two batches, at least; longer where the loop is late, so that it has as much time for all else."""


class Broadcast:
    """Those who wait for one reply to go on. To be used on the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._woken_at = asyncio.get_running_loop().time()
        self._timer: asyncio.TimerHandle | None = None
        _all.add(self)

    async def changed(self, seconds: float) -> bool:
        """Wait until there is more to read. False if nothing came for `seconds`, which are the same for all readers."""
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
        """Wake all who wait now: there is more, or nothing came for long enough to say so."""
        self._woken_at = asyncio.get_running_loop().time()
        if len(self._waiting) <= BATCH and self not in _crowded:
            self._release(BATCH, more)
        else:
            _wake_in_batches(self, more)

    def close(self) -> None:
        """Wake all for the last time."""
        self.wake()
        if self._timer is not None:
            self._timer.cancel()

    def _silent(self, seconds: float) -> None:
        """Wake the readers if nothing came for `seconds`. One timer, as one a wait took a tenth of all time."""
        waits = self._woken_at + seconds - asyncio.get_running_loop().time()
        self._timer = None
        if waits <= 0:
            self.wake(more=False)
        elif self._waiting:
            self._timer = asyncio.get_running_loop().call_later(waits, self._silent, seconds)

    def _release(self, count: int, more: bool) -> int:
        """Wake so many of those who wait longest; how many there were."""
        woken = 0
        while self._waiting and woken < count:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(more)
            woken += 1
        return woken


def wake_all() -> None:
    """Wake every reader in this process, for something that is no matter of one reply."""
    for broadcast in list(_all):
        broadcast.wake()


_all: WeakSet[Broadcast] = WeakSet()
_crowded: dict[Broadcast, tuple[int, bool]] = {}
"""Broadcasts to many: how many of those who wait are still to be woken, and by which answer."""
_pacing: asyncio.Task[None] | None = None


def _wake_in_batches(broadcast: Broadcast, more: bool) -> None:
    global _pacing  # one a process
    _, before = _crowded.get(broadcast, (0, False))
    _crowded[broadcast] = (len(broadcast._waiting), more or before)
    if _pacing is None or _pacing.done():
        _pacing = asyncio.get_running_loop().create_task(_pace(), context=contextvars.Context())


async def _pace() -> None:
    """Wake a batch of each crowd in turn, until all are awake."""
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
