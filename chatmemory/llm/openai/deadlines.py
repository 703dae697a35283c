"""Deadlines for the next bytes of a reply, and pauses between reads if many streams are open.

Three deadlines share one timer: `asyncio.timeout` around every read would do the same, but take a fifth of the CPU time
of a whole reply (measured: 200 deltas, 5.8 against 4.6 ms). Nothing is ever cancelled between two reads, where it would
hit the consumer at its own work.

The cost of a read, and of the write that follows it, hardly depends on its size. With many open streams, each is
therefore read less often, and each read returns all that has arrived since; a single stream is read as data arrives.
Measured with 500 streams of 20 deltas a second: see "slow streams" in docs/benchmarks.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from chatmemory.llm.protocol import Deadlines

READS_A_SECOND = 5000
"""Reads of all streams together, per second."""
WORTHWHILE_SECONDS = 0.01
"""A shorter pause would cost more than it saves: with fewer than 50 streams, there is none."""
LONGEST_SECONDS = 0.2


def pause_between_reads(streams: int) -> float:
    """Seconds to wait between two reads of a stream, with so many open streams."""
    seconds = streams / READS_A_SECOND
    return min(seconds, LONGEST_SECONDS) if seconds >= WORTHWHILE_SECONDS else 0.0


class ReadDeadlines:
    """The deadlines of one reply. All reads must be in the task of the first one. `close` it at the end."""

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
        """Move the total's deadline to at most `seconds` from now."""
        self._last = min(self._last, self._loop.time() + seconds)

    async def read(self, chunks: AsyncIterator[bytes]) -> bytes:
        """Return the next bytes, empty at the end. Raise `TimeoutError` after `idle` seconds, or past the total.

        The total is also checked before reading, because a flood of data would never let a timer fire.
        """
        now = self._loop.time()
        if now >= self._last:
            raise TimeoutError
        self.until = min(self._last, now + self._idle)
        if self._timer is None or self._rings_at > self.until:
            self._set_timer()
        # Looked up once: at every read, it would take a twelfth of a busy process's time (measured, chunks of one
        # event).
        task = self._task = self._task or asyncio.current_task()
        assert task is not None
        cancelling, self._is_waiting = task.cancelling(), True
        try:
            return await anext(chunks, b"")
        except BaseException as exc:
            # As in `asyncio.timeout`: our cancellation is a timeout, unless somebody else cancelled, too.
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
        # The time is stored here, because uvloop's handle for a time that is now has no time.
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
