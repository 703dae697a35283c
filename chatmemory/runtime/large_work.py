"""One budget of memory per process for all work on more than 1 MB: request bodies, attachments, exports.

Whoever needs more than is left waits for its turn, first come, first served. So the memory that large requests take
does not depend on how many clients send them at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chatmemory.errors import Unavailable

SMALL_BYTES = 1_000_000
"""Work up to this size does not count."""
BUDGET_BYTES = 64 * 1024 * 1024
WAIT_SECONDS = 30.0
"""How long work waits for its turn before it is refused."""


class SharedAmount:
    """An amount that is shared by all who hold a part of it, on one event loop."""

    def __init__(self, amount: int) -> None:
        self.amount = amount
        self.held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold(self, amount: int) -> AsyncIterator[None]:
        """Hold a part, the whole at most. Raises `Unavailable` after waiting for `WAIT_SECONDS`."""
        if not amount:  # who needs nothing does not stand in line
            yield
            return
        amount = min(amount, self.amount)
        await self._take(amount)
        try:
            yield
        finally:
            self._give_back(amount)

    async def _take(self, amount: int) -> None:
        if not self._waiting and self.held + amount <= self.amount:
            self.held += amount
            return
        turn = asyncio.get_running_loop().create_future()
        entry = (amount, turn)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn
        except BaseException as exc:
            if turn.done() and not turn.cancelled():
                self._give_back(amount)  # its turn came at the moment at which it gave up
            else:
                if entry in self._waiting:
                    self._waiting.remove(entry)
                self._wake()
            if isinstance(exc, TimeoutError):
                raise Unavailable("The server is busy with other large requests.", retry_after=5) from None
            raise

    def _give_back(self, amount: int) -> None:
        self.held -= amount
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self.held + self._waiting[0][0] <= self.amount:
            amount, turn = self._waiting.popleft()
            if not turn.cancelled():
                self.held += amount
                turn.set_result(None)


_memory = SharedAmount(BUDGET_BYTES)


@asynccontextmanager
async def large(size: int) -> AsyncIterator[None]:
    """Hold `size` bytes of the budget while working on them. Up to `SMALL_BYTES`, this does nothing.

    Release it before waiting for a client or an upstream. Raises `Unavailable`.
    """
    if size <= SMALL_BYTES:
        yield
        return
    async with _memory.hold(size):
        yield
