"""How long to wait for the next bytes of one reply, and how often many streams at once are read.

Three deadlines over one timer: `asyncio.timeout` around every read would do the same, at a fifth of the CPU time of a
whole reply (measured: 200 deltas, 5.8 against 4.6 ms). Nothing is ever cancelled between two reads, where it would hit
the consumer at its own work.

What a read costs, and the write that follows it, hardly depends on how much it brings. With many streams open each of
them is therefore read less often, and each read brings all that came meanwhile; a stream alone is read as it comes.
Measured with 500 streams of 20 deltas a second: see "slow streams" in docs/benchmarks.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from chatmemory.llm.protocol import Deadlines

READS_A_SECOND = 5000
"""Of all streams together."""
WORTHWHILE_SECONDS = 0.01
"""A shorter pause would cost more than it saves: fewer than 50 streams have none."""
LONGEST_SECONDS = 0.2


def pause_between_reads(streams: int) -> float:
    """Seconds that one of so many open streams waits before it is read again."""
    seconds = streams / READS_A_SECOND
    return min(seconds, LONGEST_SECONDS) if seconds >= WORTHWHILE_SECONDS else 0.0


class ReadDeadlines:
    """Waits of one reply, all in the task that reads first. `close` it at the end."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._idle = deadlines.idle
        self._last = now + deadlines.total
        self.until = min(self._last, now + deadlines.first_byte)
        """When the wait for the next byte ends, in the loop's time."""
        self._timer: asyncio.Handle | None = None
        self._rings_at = 0.0
        self._task: asyncio.Task[Any] | None = None
        self._is_waiting = False
        self._rang = False

    def shorten(self, seconds: float) -> None:
        """From now on the total is at most so many seconds away."""
        self._last = min(self._last, self._loop.time() + seconds)

    async def read(self, chunks: AsyncIterator[bytes]) -> bytes:
        """The next bytes, empty at the end. Raises `TimeoutError` after `idle` seconds, or past the total.

        The total is checked before reading, too, as a flood would never let a timer ring.
        """
        now = self._loop.time()
        if now >= self._last:
            raise TimeoutError
        self.until = min(self._last, now + self._idle)
        if self._timer is None or self._rings_at > self.until:
            self._set_timer()
        # Asked once: asking at every read takes a twelfth of a busy process's time (measured, chunks of one event).
        task = self._task = self._task or asyncio.current_task()
        assert task is not None
        cancelling, self._is_waiting = task.cancelling(), True
        try:
            return await anext(chunks, b"")
        except BaseException as exc:
            # As `asyncio.timeout` does it: a cancellation of ours is a timeout unless somebody else
            # cancelled, too.
            is_ours = self._rang and task.uncancel() <= cancelling
            if is_ours and isinstance(exc, asyncio.CancelledError):
                raise TimeoutError from None
            raise
        finally:
            self._is_waiting = False

    def close(self) -> None:
        """Drop the timer."""
        if self._timer:
            self._timer.cancel()

    def _set_timer(self) -> None:
        self.close()
        # The time is kept here: of a time that is now, uvloop makes a handle that knows none.
        self._timer, self._rings_at = self._loop.call_at(self.until, self._ring), self.until

    def _ring(self) -> None:
        self._timer = None
        if not self._is_waiting or self._task is None:
            return  # the next read sets it again
        if self._loop.time() < self.until:
            self._set_timer()
            return
        self._rang = True
        self._task.cancel()
