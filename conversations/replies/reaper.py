"""Replies whose process is gone: every server finishes those whose lease has run out, as often as a lease lasts.

So a reply that was cut off by a crash is final within two leases of it, with no worker running and nobody asking. The
next begin and the sweep do the same; whoever comes first wins.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from chatmemory.database import executors
from conversations.replies import finish

logger = logging.getLogger(__name__)

_watching: asyncio.Task[None] | None = None


def watch() -> None:
    """Begin to look after them, on the running loop."""
    global _watching  # one a process
    _watching = asyncio.get_running_loop().create_task(_watch(), context=contextvars.Context())


async def leave() -> None:
    """Look after them no more. What is being finished at this moment is finished."""
    if _watching is not None:
        _watching.cancel()
        await asyncio.wait([_watching])


async def _watch() -> None:
    while True:
        await asyncio.sleep(settings.REPLY_LEASE_SECONDS)
        try:
            await executors.write(finish.finish_expired)
        except (DatabaseError, InterfaceError) as exc:
            logger.warning("abandoned replies not looked for", extra={"error": type(exc).__name__})
