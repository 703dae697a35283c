"""Endpoints for an operator's monitoring: `/healthz`, whether the process is up; `/readyz`, whether what it needs
works, which is the database, the queue and a worker; `/metrics` for Prometheus, what the server's processes count, and
gauges that are read from the tables.

A call to an unreachable database can hang for ten seconds or more. So one thread of its own asks at a time, all
callers share it, and none of them waits longer than `MAX_WAIT_SECONDS`. They wait on the event loop, which needs no
thread, even if all threads wait for the database.

Scrapers send `METRICS_TOKEN`. All servers report the same of the tables: use `max` of them.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from asgiref.sync import markcoroutinefunction
from django.conf import settings
from django.db import connection, connections
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django_q.models import OrmQ
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.api.error_handler import error_body, error_page
from chatmemory.database import executors, startup
from chatmemory.metrics import CONTENT_TYPE, exposition
from conversations.webhooks import outbox
from memory import queue
from memory.folding import leases
from memory.models import ConversationBrief, Worker
from memory.queue import UNAVAILABLE
from memory.worker import alive, sweep

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_WAIT_SECONDS = 2.0
"""Maximum wait of a caller, in seconds."""


class Probe(Generic[T]):
    """Questions that are asked of the database in one thread for all callers. One per process, of its loop."""

    def __init__(self, ask: Callable[[dict[str, T]], None]) -> None:
        """`ask` puts one answer after the other into a dictionary."""
        self._ask = ask
        self._asking: tuple[dict[str, T], asyncio.Task[None]] | None = None

    async def answers(self) -> tuple[dict[str, T], bool]:
        """The answers so far, after `MAX_WAIT_SECONDS` at most, and whether these are all that there will be."""
        if self._asking is None or self._asking[1].done():
            answers: dict[str, T] = {}
            self._asking = answers, asyncio.ensure_future(executors.in_own_thread(lambda: self._run(answers)))
        answers, asking = self._asking
        await asyncio.wait({asking}, timeout=MAX_WAIT_SECONDS)
        if asking.done() and (error := asking.exception()):
            logger.error("probe failed", exc_info=error)
        return answers, asking.done()

    def _run(self, answers: dict[str, T]) -> None:
        try:
            self._ask(answers)
        finally:
            connections.close_all()  # its thread ends


class HealthView(APIView):
    authentication_classes = permission_classes = ()

    @extend_schema(responses={200: OpenApiTypes.OBJECT}, operation_id="healthz", tags=["health"], auth=[])
    def get(self, request: Request) -> Response:
        """Liveness: the process is up. For liveness probes: answers as long as the process runs, and checks nothing
        else.
        """
        return Response({"status": "ok"})


class ReadyView(APIView):
    authentication_classes = permission_classes = ()
    found: dict[str, str]
    """By part: why it is not ready, as a sentence for people."""

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        return markcoroutinefunction(super().as_view(**initkwargs))

    async def dispatch(  # type: ignore[override]  # DRF's is not async
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        self.found = await problems()
        return super().dispatch(request, *args, **kwargs)

    @extend_schema(
        responses={200: OpenApiTypes.OBJECT, 503: OpenApiTypes.OBJECT},
        operation_id="readyz",
        tags=["health"],
        auth=[],
    )
    def get(self, request: Request) -> Response:
        """Readiness: database, migrations, queue and worker. For people and alarms: names the part that does not work.
        Chats go on without a worker, so route by `/healthz`.
        """
        if not self.found:
            return Response({"status": "ok", "parts": dict.fromkeys(sorted(PARTS), "ok")})
        details = {part: [problem] for part, problem in sorted(self.found.items())}
        return Response(error_body("unavailable", f"Not ready: {', '.join(details)}.", details), status=503)


SILENT = "does not answer"
MIGRATIONS = "migrations"


def _database() -> str | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return None


def _queue() -> str | None:
    queue.waiting_tasks()
    return None


PARTS: dict[str, Callable[[], str | None]] = {
    "database": _database,
    MIGRATIONS: startup.migrations_problem,
    "worker": lambda: alive.problem() or sweep.problem(),
    "queue": _queue,
}
"""By name, a function that returns a part's problem, and raises or hangs if the part does not answer."""


def _ask_parts(answers: dict[str, str | None]) -> None:
    """Ask all parts. One that fails has no answer."""
    for part, ask in PARTS.items():
        try:
            answers[part] = ask()
        except UNAVAILABLE as exc:
            logger.warning("not ready", extra={"error": type(exc).__name__})
            if part in ("database", MIGRATIONS):
                answers.pop("database", None)
                return  # then the worker cannot be checked, and mostly not the queue
        if answers.get(MIGRATIONS):
            return


_parts = Probe(_ask_parts)


async def problems() -> dict[str, str]:
    """Return the parts that are not ready. A part not asked yet counts, too."""
    answers, is_all = await _parts.answers()
    if not is_all:
        logger.warning("not ready", extra={"error": "timeout"})
    if problem := answers.get(MIGRATIONS):
        return {MIGRATIONS: problem}  # it explains the problems of the other parts
    found = {part: answers.get(part, SILENT) for part in PARTS if part != MIGRATIONS}
    return {part: problem for part, problem in found.items() if problem}


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


def _ask_tables(answers: dict[str, float]) -> None:
    try:
        answers |= {name: read() for name, (_, read) in STORED.items()}
    except UNAVAILABLE as exc:
        logger.warning("metrics of the tables could not be read", extra={"error": type(exc).__name__})


_tables = Probe(_ask_tables)


async def metrics(request: HttpRequest) -> HttpResponse:
    if not settings.METRICS_TOKEN:
        raise Http404
    given = request.META.get("HTTP_AUTHORIZATION", "")
    if not constant_time_compare(given, f"Bearer {settings.METRICS_TOKEN}"):
        refusal = error_page(401)
        refusal["WWW-Authenticate"] = "Bearer"
        return refusal
    values, _ = await _tables.answers()
    stored = "".join(GAUGE.format(name, STORED[name][0], value) for name, value in (values or {ANSWERS: 0.0}).items())
    counted = await executors.in_own_thread(exposition)  # it reads the files of all processes
    return HttpResponse(counted + stored.encode(), content_type=CONTENT_TYPE)
