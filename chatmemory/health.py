"""`/healthz`: the process is up. `/readyz`: what it needs works, which is the database, the queue and a worker.

A call to an unreachable database can hang for ten seconds or more. So one probe at a time runs in its own thread, all
callers share it, and none of them waits longer than `MAX_WAIT_SECONDS`. The callers wait on the event loop: that needs
no thread, even if all threads wait for the database.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from asgiref.sync import markcoroutinefunction
from django.db import connection, connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.api.error_handler import error_body
from chatmemory.database import startup
from memory import queue
from memory.queue import UNAVAILABLE
from memory.worker import alive, sweep

logger = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 2.0
"""Maximum wait of a caller, in seconds."""
SILENT = "does not answer"
MIGRATIONS = "migrations"

Problems = dict[str, str]
"""By part: why it is not ready, as a sentence for people."""


class Open(APIView):
    """A view without authentication or permissions."""

    authentication_classes = ()
    permission_classes = (AllowAny,)


class HealthView(Open):
    @extend_schema(
        responses={200: OpenApiTypes.OBJECT},
        operation_id="healthz",
        summary="Liveness: the process is up",
        description="For liveness probes: answers as long as the process runs, and checks nothing else.",
        tags=["health"],
        auth=[],
    )
    def get(self, request: Request) -> Response:
        return Response({"status": "ok"})


class ReadyView(Open):
    found: Problems

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        return markcoroutinefunction(super().as_view(**initkwargs))

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return self._dispatch(request, *args, **kwargs)

    async def _dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self.found = await problems()
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response

    @extend_schema(
        responses={200: OpenApiTypes.OBJECT, 503: OpenApiTypes.OBJECT},
        operation_id="readyz",
        summary="Readiness: database, migrations, queue and worker",
        description="For people and alarms: names the part that does not work. Chats go on without a "
        "worker, so route by `/healthz`.",
        tags=["health"],
        auth=[],
    )
    def get(self, request: Request) -> Response:
        if not self.found:
            return Response({"status": "ok", "parts": dict.fromkeys(sorted(PARTS), "ok")})
        details = {part: [problem] for part, problem in sorted(self.found.items())}
        return Response(error_body("unavailable", f"Not ready: {', '.join(details)}.", details), status=503)


def _database() -> str | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return None


def _queue() -> str | None:
    queue.waiting_tasks()
    return None


def _worker() -> str | None:
    return alive.problem() or sweep.problem()


PARTS: dict[str, Callable[[], str | None]] = {
    "database": _database,
    MIGRATIONS: startup.migrations_problem,
    "worker": _worker,
    "queue": _queue,
}
"""By name, a function that returns a part's problem, and raises or hangs if the part does not answer."""


async def problems() -> Problems:
    """Return the parts that are not ready, within `MAX_WAIT_SECONDS`."""
    try:
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(_probe())), MAX_WAIT_SECONDS)
    except TimeoutError:
        logger.warning("not ready", extra={"error": "timeout"})
        return _silent(_unanswered)


_unanswered: tuple[str, ...] = ()
"""The parts that the probe has not asked yet, or is asking. Replaced and never changed: other threads read it."""


def _ask_all() -> Problems:
    global _unanswered  # there is one probe at a time
    found: Problems = {}
    _unanswered = tuple(PARTS)
    while _unanswered and "database" not in found:
        part = _unanswered[0]
        problem = _ask(PARTS[part])
        _unanswered = _unanswered[1:]
        if problem and part == MIGRATIONS and problem != SILENT:
            return {part: problem}  # it explains the problems of the other parts
        if problem:
            found["database" if part == MIGRATIONS else part] = problem
    # Without a database, the worker cannot be checked, and mostly not the queue.
    return found | _silent(_unanswered)


_running: Future[Problems] | None = None


def _probe() -> Future[Problems]:
    """Return the running probe, or start one in a thread that shutdown does not wait for. Only called on the loop."""
    global _running
    if _running is None or _running.done():
        _running = Future()
        threading.Thread(target=_run, args=(_running,), name="readiness", daemon=True).start()
    return _running


def _run(future: Future[Problems]) -> None:
    try:
        future.set_result(_ask_all())
    except BaseException as exc:  # noqa: BLE001  # raised again where it is waited for
        future.set_exception(exc)
    finally:
        connections.close_all()  # its thread ends


def _silent(unanswered: Sequence[str]) -> Problems:
    """The parts that have not answered. Missing answers about migrations are those of the database."""
    return {part: SILENT for part in unanswered if part != MIGRATIONS}


def _ask(part: Callable[[], str | None]) -> str | None:
    try:
        return part()
    except UNAVAILABLE as exc:
        logger.warning("not ready", extra={"error": type(exc).__name__})
        return SILENT
