"""`/healthz`: the process is up. `/readyz`: what it needs works, which is the database, the queue and a worker.

A call to an unreachable database can hang for ten seconds or more. So one probe at a time runs in a thread of its own,
all callers share it, and none of them waits longer than `MAX_WAIT_SECONDS`. They wait on the event loop, which needs no
thread, even if all threads wait for the database.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from asgiref.sync import markcoroutinefunction
from django.db import connection, connections
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.api.error_handler import error_body
from chatmemory.database import executors, startup
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


_probe: tuple[dict[str, str | None], asyncio.Task[None]] | None = None
"""The answers of the parts so far, and the thread that asks them."""


async def problems() -> Problems:
    """Return the parts that are not ready, within `MAX_WAIT_SECONDS`. A part not asked yet counts, too."""
    global _probe  # one per process, of its loop
    if _probe is None or _probe[1].done():
        answers: dict[str, str | None] = {}
        _probe = answers, asyncio.ensure_future(executors.in_own_thread(partial(_ask, answers)))
    answers, asking = _probe
    await asyncio.wait({asking}, timeout=MAX_WAIT_SECONDS)
    if not asking.done():
        logger.warning("not ready", extra={"error": "timeout"})
    elif error := asking.exception():
        logger.error("not ready", exc_info=error)
    if problem := answers.get(MIGRATIONS):
        return {MIGRATIONS: problem}  # it explains the problems of the other parts
    found = {part: answers.get(part, SILENT) for part in PARTS if part != MIGRATIONS}
    return {part: problem for part, problem in found.items() if problem}


def _ask(answers: dict[str, str | None]) -> None:
    """Ask all parts. One that fails has no answer."""
    try:
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
    finally:
        connections.close_all()  # its thread ends
