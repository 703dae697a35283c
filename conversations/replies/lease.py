"""Leases of replies: a process renews its own while it writes; replies with an expired lease are finished here.

Every server finishes them, once per length of a lease. So a reply that was cut off by a crash is final within two
leases of it, even if no worker runs and no client asks. The next begin and the sweep do the same; the first one wins.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now

from chatmemory.database import executors
from conversations.models import ActiveReply, Message
from conversations.replies.finish import Ending, Pending, finish, locked_active

logger = logging.getLogger(__name__)

CLOCK_TOLERANCE = timedelta(hours=1)
"""A lease that ends more than this beyond its length was taken before the clock was set back, and counts as expired."""

_watching: asyncio.Task[None] | None = None


def expired() -> ExpressionWrapper[Any]:
    """Return the condition for replies whose process is gone: their lease has expired."""
    latest = Now() + timedelta(seconds=settings.REPLY_LEASE_SECONDS) + CLOCK_TOLERANCE
    return ExpressionWrapper(
        Q(lease_expires_at__lt=Now()) | Q(lease_expires_at__gt=latest), output_field=BooleanField()
    )


def finish_abandoned(active: ActiveReply) -> Message | None:
    """Finish a reply whose process is gone, with the text of its last checkpoint."""
    ending = Ending.cancelled() if active.cancel_requested else Ending.interrupted(active.text)
    return finish(Pending.of(active), active.text, ending)


def finish_expired() -> int:
    """Finish every reply with an expired lease; return how many there were. Called by the sweep.

    A reply that cannot be finished is logged and does not stop the others.
    """
    finished = 0
    for chat_id in list(ActiveReply.objects.filter(expired()).values_list("pk", flat=True)[:1000]):
        try:
            finished += _finish_expired_in(chat_id)
        except Exception as exc:  # noqa: BLE001  # any fault of one reply must not stop the others
            logger.error("reply not finished", extra={"chat": str(chat_id), "error": type(exc).__name__})
    return finished


def _finish_expired_in(chat_id: UUID) -> bool:
    with transaction.atomic():
        active = locked_active(chat_id, ActiveReply.objects.filter(expired()))
        return active is not None and finish_abandoned(active) is not None


def watch() -> None:
    """Start looking for replies with an expired lease, on the running loop."""
    global _watching  # one per process
    _watching = asyncio.get_running_loop().create_task(_watch(), context=contextvars.Context())


async def stop_watching() -> None:
    """Stop looking for them. A reply being finished at this moment is still finished."""
    if _watching is not None:
        _watching.cancel()
        await asyncio.wait([_watching])


async def _watch() -> None:
    while True:
        await asyncio.sleep(settings.REPLY_LEASE_SECONDS)
        try:
            await executors.write(finish_expired)
        except (DatabaseError, InterfaceError) as exc:
            logger.warning("abandoned replies not looked for", extra={"error": type(exc).__name__})
