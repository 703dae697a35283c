"""The ASGI application: Django behind `chatmemory.request_limits`, with lifespan and draining.

uvicorn never exits while a stream is open, and calls lifespan shutdown only after connections have closed (measured).
A SIGTERM handler, chained in at startup, therefore tells readers to reconnect elsewhere; shutdown then lets replies
be generated for another `REPLY_DRAIN_SECONDS` and finishes the remaining ones as incomplete.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import IO, Any, cast

import django
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, RequestAborted

from chatmemory import preflight

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
try:
    if not apps.ready:  # else another program's process
        preflight.require_database(settings.DATABASES["default"])
        django.setup()
except ImproperlyConfigured as exc:
    preflight.end_server(f"chatmemory cannot start: {exc}")

from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.core.signals import request_started
from django.db import DatabaseError, InterfaceError, close_old_connections, connection, reset_queries

from chatmemory import request_limits
from chatmemory.database import migration_state
from chatmemory.llm import registry
from chatmemory.request_limits import Application, Receive, Scope, Send
from chatmemory.runtime import process
from chatmemory.runtime.logs import log_uncaught_exceptions
from chatmemory.text import tokens
from conversations.replies import generation

logger = logging.getLogger(__name__)

# A request's thread for synchronous code was cleaned up at the end of the previous request, so these receivers have
# nothing to do at its start, and calling them would need a thread for every open stream. They still run at the end of
# requests.
for tidy in (close_old_connections, reset_queries):
    request_started.disconnect(tidy)


class ServerRequest(ASGIRequest):
    """Django's, with the length of the body, which a client need not declare: `Transfer-Encoding: chunked` has none.

    Django's forms and DRF take a missing Content-Length for a missing body.
    """

    def __init__(self, scope: Scope, body_file: IO[bytes]) -> None:
        super().__init__(scope, body_file)
        if "CONTENT_LENGTH" not in self.META and (length := body_file.seek(0, os.SEEK_END)):
            self.META["CONTENT_LENGTH"] = str(length)
        body_file.seek(0)


class ServerHandler(ASGIHandler):
    request_class = ServerRequest

    async def listen_for_disconnect(self, receive: Any) -> None:
        """Return where Django's raises an exception, which it ignores.

        That exception would form a reference cycle with the frame that holds it, and keep request and response,
        megabytes at worst, until the garbage collector's next full run.
        """
        with suppress(RequestAborted):
            await super().listen_for_disconnect(receive)


django_app = ServerHandler()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["type"] == "http":
        await request_limits.pass_on(cast(Application, django_app), scope, receive, send)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        event = await receive()
        if event["type"] == "lifespan.startup":
            tokens.load()
            registry.load()
            await asyncio.to_thread(_tell_of_missing_migrations)
            _warn_of_unbounded_heads()
            if threading.current_thread() is threading.main_thread():  # else another program's process
                _chain_sigterm(asyncio.get_running_loop())
                log_uncaught_exceptions()
            generation.watch()
            process.return_large_blocks()
            process.freeze_existing()
            await send({"type": "lifespan.startup.complete"})
        else:
            await generation.shut_down()
            await registry.aclose()
            await send({"type": "lifespan.shutdown.complete"})
            return


def _warn_of_unbounded_heads() -> None:
    """Warn if uvicorn's own httptools protocol runs: it accepts endless headers and URLs, at quadratic cost."""
    if (
        "uvicorn.protocols.http.httptools_impl" in sys.modules
        and "chatmemory.http_protocol" not in sys.modules
    ):
        logger.warning(
            "headers are not bounded: start uvicorn with --http chatmemory.http_protocol:HttpProtocol"
        )


def _tell_of_missing_migrations() -> None:
    try:
        if problem := migration_state.problem():
            logger.error("database not migrated", extra={"reason": problem})
    except (DatabaseError, InterfaceError) as exc:
        logger.error("database unavailable", extra={"error": type(exc).__name__})
    finally:
        connection.close()


def _chain_sigterm(loop: asyncio.AbstractEventLoop) -> None:
    """Start draining before the server's own handler runs. Only a main thread may install handlers."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _draining_first(loop, signal.getsignal(number)))


def _draining_first(
    loop: asyncio.AbstractEventLoop, previous: Any
) -> Callable[[int, FrameType | None], None]:
    def handler(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(generation.start_draining)
        if callable(previous):
            previous(number, frame)

    return handler
