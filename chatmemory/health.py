"""`/healthz`: the process is up. `/readyz`: what it needs works, which is the database, the queue and a worker.

A call to an unreachable database can hang for ten seconds or more. So one probe at a time runs in its own thread, all
callers share it, and none of them waits longer than `MAX_WAIT_SECONDS`. The callers wait on the event loop: that needs
no thread, even if all threads wait for the database.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
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
    probe = _probe()
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(probe.done)), MAX_WAIT_SECONDS)
    if not probe.done.done():
        logger.warning("not ready", extra={"error": "timeout"})
    return dict(probe.found)


class _Probe:
    """Asks all parts, in a thread that shutdown does not wait for."""

    def __init__(self) -> None:
        # Whatever is not asked yet does not answer. Missing answers about migrations are those of the database.
        self.found = dict.fromkeys((part for part in PARTS if part != MIGRATIONS), SILENT)
        self.done: Future[None] = Future()
        threading.Thread(target=self._run, name="readiness", daemon=True).start()

    def _run(self) -> None:
        try:
            self._ask_all()
            self.done.set_result(None)
        except BaseException as exc:  # noqa: BLE001  # raised again where it is waited for
            self.done.set_exception(exc)
        finally:
            connections.close_all()  # its thread ends

    def _ask_all(self) -> None:
        for part, ask in PARTS.items():
            try:
                problem = ask()
            except UNAVAILABLE as exc:
                logger.warning("not ready", extra={"error": type(exc).__name__})
                if part in ("database", MIGRATIONS):
                    self.found["database"] = SILENT
                    return  # then the worker cannot be checked, and mostly not the queue
                continue
            if problem and part == MIGRATIONS:
                self.found = {part: problem}  # it explains the problems of the other parts
                return
            self.found = {name: told for name, told in self.found.items() if name != part}
            if problem:
                self.found[part] = problem


_last: _Probe | None = None


def _probe() -> _Probe:
    """Return the running probe, or a new one. Only called on the loop."""
    global _last
    if _last is None or _last.done.done():
        _last = _Probe()
    return _last
