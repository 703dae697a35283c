"""What ends when this process goes away, but is no generation: answers that are stored nowhere.

They get `REPLY_DRAIN_SECONDS`, as replies do, and then end. No other process could go on with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from django.conf import settings

from chatmemory.errors import Unavailable
from conversations.replies import generation

T = TypeVar("T")


async def drained() -> None:
    """Return when this process is going away, and the time of what is open is over. Notices within a tick."""
    while not generation.is_draining():
        await asyncio.sleep(settings.REPLY_CHECKPOINT_SECONDS)
    await asyncio.sleep(settings.REPLY_DRAIN_SECONDS)


async def unless_drained(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when this is. Raises `Unavailable` if the process goes away first."""
    task = asyncio.create_task(work)
    going = asyncio.create_task(drained())
    try:
        await asyncio.wait({task, going}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Unavailable("This server is restarting. Try again in a moment.", retry_after=1)
        return task.result()
    finally:
        going.cancel()
        task.cancel()
