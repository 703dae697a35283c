"""`/metrics` for Prometheus: what the server's processes count, and gauges that are read from the tables.

Scrapers send `METRICS_TOKEN`. All servers report the same of the tables: use `max` of them. A database that hangs
delays an answer by `MAX_WAIT_SECONDS`, and no second question is asked meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django_q.models import OrmQ

from chatmemory.api.error_handler import error_page
from chatmemory.database import executors
from chatmemory.metrics import CONTENT_TYPE, exposition
from conversations.webhooks import outbox
from memory.folding import leases
from memory.models import ConversationBrief, Worker
from memory.queue import UNAVAILABLE
from memory.worker import alive

logger = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 2.0
MAX_COUNTED = 10_000
"""Rows that are counted of a kind, so that a long queue does not make scrapes slow."""
ANSWERS = "chatmemory_database_up"
GAUGE = "# HELP {0} {1}\n# TYPE {0} gauge\n{0} {2}\n"


def _count(rows: QuerySet[Any]) -> int:
    return rows[:MAX_COUNTED].count()


def _queue_age() -> float:
    waiting = OrmQ.objects.filter(lock__lte=timezone.now())
    oldest = waiting.order_by("pk").values_list("lock", flat=True).first()
    return (timezone.now() - oldest).total_seconds() if oldest else 0.0


STORED: dict[str, tuple[str, Callable[[], float]]] = {
    "chatmemory_due_chats": (
        "Chats to be folded.",
        lambda: _count(ConversationBrief.objects.filter(leases.FLAGGED)),
    ),
    "chatmemory_queue_age_seconds": ("Age of the oldest task.", _queue_age),
    "chatmemory_workers": ("Live workers.", lambda: Worker.objects.filter(alive.ALIVE).count()),
    "chatmemory_webhooks_waiting": ("Undelivered events.", lambda: _count(outbox.WAITING)),
    ANSWERS: ("Whether the database answers.", lambda: 1.0),
}
"""Gauges and their readers; each reads by an index or from a small table."""


async def metrics(request: HttpRequest) -> HttpResponse:
    if not settings.METRICS_TOKEN:
        raise Http404
    given = request.META.get("HTTP_AUTHORIZATION", "")
    if not constant_time_compare(given, f"Bearer {settings.METRICS_TOKEN}"):
        refusal = error_page(401)
        refusal["WWW-Authenticate"] = "Bearer"
        return refusal
    stored = "".join(GAUGE.format(name, STORED[name][0], value) for name, value in (await _stored()).items())
    counted = await executors.in_own_thread(exposition)  # it reads the files of all processes
    return HttpResponse(counted + stored.encode(), content_type=CONTENT_TYPE)


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
