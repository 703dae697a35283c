"""One budget of memory per process for all work on more than 1 MB: request bodies, attachments, exports.

Whoever needs more than is left waits for its turn, first come, first served. So the memory that large requests take
does not depend on how many clients send them at once.
"""

import asyncio
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
        self._line = asyncio.Lock()
        """Held by the one who waits for its part; the others stand in line behind it."""
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def hold(self, amount: int) -> AsyncIterator[None]:
        """Hold a part, the whole at most. Raises `Unavailable` after waiting for `WAIT_SECONDS`."""
        if not amount:  # who needs nothing does not stand in line
            yield
            return
        amount = min(amount, self.amount)
        try:
            async with asyncio.timeout(WAIT_SECONDS), self._line:
                while self.held + amount > self.amount:
                    self._freed.clear()
                    await self._freed.wait()
                self.held += amount
        except TimeoutError:
            raise Unavailable("The server is busy with other large requests.", retry_after=5) from None
        try:
            yield
        finally:
            self.held -= amount
            self._freed.set()


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
