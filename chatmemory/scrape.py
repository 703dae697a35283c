"""`/metrics` for Prometheus: what the server's processes count, and gauges that are read from the tables.

Whoever scrapes sends `METRICS_TOKEN`. All servers tell the same of the tables: use `max` of them. A database that hangs
delays an answer by `MAX_WAIT_SECONDS`, and no second question is asked meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable

from django.conf import settings
from django.db import connections
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django_q.models import OrmQ

from chatmemory.api.error_handler import error_page
from chatmemory.database import executors
from chatmemory.metrics import CONTENT_TYPE, Read, exposition
from conversations.webhooks import outbox
from memory.folding import work
from memory.models import ConversationBrief, Worker
from memory.queue import UNAVAILABLE
from memory.worker import alive

logger = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 2.0
MAX_COUNTED = 10_000
"""Rows that are counted of a kind, so that a long queue does not make scrapes slow."""
ANSWERS = "chatmemory_database_up"


def _count(rows: QuerySet[ConversationBrief] | QuerySet[OrmQ]) -> int:
    return rows[:MAX_COUNTED].count()


def _waiting() -> QuerySet[OrmQ]:
    return OrmQ.objects.filter(lock__lte=timezone.now())


def _queue_age() -> float:
    oldest = _waiting().order_by("pk").values_list("lock", flat=True).first()
    return (timezone.now() - oldest).total_seconds() if oldest else 0.0


STORED: dict[str, tuple[str, Callable[[], float]]] = {
    "chatmemory_due_chats": (
        f"Chats whose memory is to be updated, {MAX_COUNTED:,} at most.",
        lambda: _count(ConversationBrief.objects.filter(work.FLAGGED)),
    ),
    "chatmemory_degraded_chats": (
        f"Chats whose memory the built-in summarizer made, {MAX_COUNTED:,} at most.",
        lambda: _count(ConversationBrief.objects.filter(degraded=True)),
    ),
    "chatmemory_queue_tasks": (
        f"Tasks that no worker has taken yet, {MAX_COUNTED:,} at most.",
        lambda: _count(_waiting()),
    ),
    "chatmemory_queue_age_seconds": ("How long the oldest of them waits.", _queue_age),
    "chatmemory_workers": (
        "Workers that are alive.",
        lambda: Worker.objects.filter(seen_at__gte=Now() - alive.ALIVE_FOR).count(),
    ),
    "chatmemory_webhooks_waiting": (
        f"Webhook events that wait for their delivery, {outbox.MAX_COUNTED:,} at most.",
        lambda: outbox.counts()[0],
    ),
    ANSWERS: ("1 if the database answers, else 0.", lambda: 1.0),
}
"""By name: what a gauge tells, and how it is read, by an index."""


async def metrics(request: HttpRequest) -> HttpResponse:
    if not settings.METRICS_TOKEN:
        raise Http404
    given = request.META.get("HTTP_AUTHORIZATION", "")
    if not constant_time_compare(given, f"Bearer {settings.METRICS_TOKEN}"):
        refusal = error_page(401)
        refusal["WWW-Authenticate"] = "Bearer"
        return refusal
    read = Read({name: (STORED[name][0], value) for name, value in (await _stored()).items()})
    text = await executors.in_own_thread(lambda: exposition(read))  # it reads the files of all processes
    return HttpResponse(text, content_type=CONTENT_TYPE)


_asking: asyncio.Task[dict[str, float]] | None = None


async def _stored() -> dict[str, float]:
    """The values of `STORED`; only that the database does not answer if it does not in time."""
    global _asking  # one per process, of its loop
    if _asking is None or _asking.done():
        _asking = asyncio.ensure_future(executors.in_own_thread(_ask))
    await asyncio.wait({_asking}, timeout=MAX_WAIT_SECONDS)
    return _asking.result() if _asking.done() else {ANSWERS: 0.0}


def _ask() -> dict[str, float]:
    try:
        return {name: read() for name, (_, read) in STORED.items()}
    except UNAVAILABLE as exc:
        logger.warning("metrics of the tables could not be read", extra={"error": type(exc).__name__})
        return {ANSWERS: 0.0}
    finally:
        connections.close_all()  # its thread ends
