"""The ASGI application: Django, with lifespan, draining, and limits on the URL, the headers and the body of a request.

uvicorn never exits while a stream is open and calls lifespan shutdown only after connections have closed (measured).
So a SIGTERM handler, chained in at startup, tells readers to reconnect elsewhere; shutdown then lets generations go on
for `REPLY_DRAIN_SECONDS` and finishes what is left as incomplete.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from types import FrameType
from typing import IO, Any

import django
from asgiref.sync import ThreadSensitiveContext
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, RequestAborted

from chatmemory import preflight

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
try:
    if not apps.ready:  # else it is somebody else's process
        preflight.require_database(settings.DATABASES["default"])
        django.setup()
        preflight.require_embeddings()
except ImproperlyConfigured as exc:
    preflight.end_server(f"chatmemory cannot start: {exc}")

from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.core.signals import request_started
from django.db import DatabaseError, InterfaceError, close_old_connections, connection, reset_queries

from chatmemory.api import error_handler
from chatmemory.database import migration_state
from chatmemory.llm import registry
from chatmemory.runtime import garbage
from chatmemory.runtime.logging_config import request_context, request_id, request_id_for, tell_of_crashes
from chatmemory.runtime.request_threads import RequestThread
from chatmemory.text import tokens
from conversations.accounts import stateless_calls
from conversations.openai_api.errors import openai_body
from conversations.replies import generation, lease

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

OPENAI_PATH = "/v1/chat/"
"""Where clients of OpenAI's API send whole histories, and read errors in its shape."""
HEADERS_MAX = 200
"""Headers of a request. Browsers send about twenty, and proxies add a few."""

# The thread that a request has for synchronous code was tidied up at the end of the one before: there is nothing for
# these to do at its start, and to ask them would take a thread for every open stream. At its end they are asked.
for tidy in (close_old_connections, reset_queries):
    request_started.disconnect(tidy)


class ServerRequest(ASGIRequest):
    """Django's, with the length of its body, which a client need not declare: Transfer-Encoding: chunked has none.

    Django's forms and DRF take a missing Content-Length for a missing body.
    """

    def __init__(self, scope: Scope, body_file: IO[bytes]) -> None:
        super().__init__(scope, body_file)
        if "CONTENT_LENGTH" not in self.META and (length := body_file.seek(0, os.SEEK_END)):
            self.META["CONTENT_LENGTH"] = str(length)
        body_file.seek(0)


class ServerHandler(ASGIHandler):
    request_class = ServerRequest

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """As Django's, but with a thread that is kept."""
        thread = RequestThread()
        try:
            async with ThreadSensitiveContext(executor=thread):
                await self.handle(scope, receive, send)
        finally:
            thread.give_back()

    async def listen_for_disconnect(self, receive: Any) -> None:
        """Return where Django's raises, which it ignores: the exception would hold the frame that holds the exception.

        With it request and response, megabytes at worst, would stay until the garbage collector's next full run.
        """
        with suppress(RequestAborted):
            await super().listen_for_disconnect(receive)


django_app = ServerHandler()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["type"] == "http":
        await _http(scope, receive, send)


async def _http(scope: Scope, receive: Receive, send: Send) -> None:
    """Pass on to Django, but for what is over a limit: the URL, the headers, a body that says so, or is found so."""
    is_openai = scope["path"].startswith(OPENAI_PATH)
    limit = settings.OPENAI_REQUEST_MAX_BYTES if is_openai else settings.REQUEST_MAX_BYTES
    if status := _refused_by_its_head(scope, limit):
        await _refuse(scope, receive, send, status)
        return
    received = 0

    async def counted() -> Event:
        nonlocal received
        event = await receive()
        received += len(event.get("body", b""))
        # To Django it looks as if the client had left: so it closes what it has read so far, and answers nothing.
        return event if received <= limit else {"type": "http.disconnect"}

    await django_app(dict(scope), counted, send)
    if received > limit:
        await _refuse(scope, receive, send, 413)


def _refused_by_its_head(scope: Scope, body_limit: int) -> int | None:
    """The status of the refusal, None where nothing is over its limit."""
    url = len(scope.get("raw_path", b"")) + len(scope["query_string"])
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if url > settings.REQUEST_HEAD_MAX_BYTES // 2:
        return 414
    # Each with a colon, a space and the end of its line. The HTTP protocol counts, too, but not to the byte.
    size = url + sum(len(name) + len(value) + 4 for name, value in headers)
    if len(headers) > HEADERS_MAX or size > settings.REQUEST_HEAD_MAX_BYTES:
        return 431
    declared = dict(headers).get(b"content-length", b"0")
    return 413 if declared.isdigit() and int(declared) > body_limit else None


LINGER_SECONDS = 2.0
LINGER_BYTES = 64 * 1024 * 1024
"""For how long, and of how much, the rest of a refused body is read and thrown away."""


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int) -> None:
    """Answer with the same headers and line in the log as all that Django answers.

    The connection stays open while the rest of the body arrives, for a moment. Closed at once, it would be reset, and
    who still sends may never read the answer: nginx makes 502 of it.
    """
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    headers, body = refusal(status, scope["method"], scope["path"], given)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    if not any(name == b"expect" for name, _ in scope["headers"]):  # who asks first has sent nothing yet
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await _throw_away(receive)
    await send({"type": "http.response.body", "body": b""})


async def _throw_away(receive: Receive) -> None:
    """Read what comes of a body, to its end or to `LINGER_BYTES`."""
    read, comes_more = 0, True
    while comes_more and read < LINGER_BYTES:
        event = await receive()
        read += len(event.get("body", b""))
        comes_more = event.get("more_body", False)


REFUSALS = {
    400: "invalid_request",
    408: "request_timeout",
    413: "too_large",
    414: "url_too_long",
    431: "headers_too_large",
}
"""What a request is refused for before Django sees it."""
PATH_LOGGED = 200
"""Characters of a path that are logged of a request that is refused for its length, or might be."""


def refusal(
    status: int, method: str, path: str, request_id_given: str = ""
) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Headers and body of such an answer, which is logged. The connection ends with it."""
    told = error_handler.error_body(REFUSALS[status], error_handler.SENTENCES[status])
    body = json.dumps(openai_body(status, told["error"]) if path.startswith(OPENAI_PATH) else told).encode()
    with request_context(request_id_for(request_id_given)):
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "cache-control": "no-store",
            "connection": "close",
            "x-request-id": request_id.get(),
        }
        logger.info("request", extra={"method": method, "path": path[:PATH_LOGGED], "status": status})
    return [(name.encode(), value.encode()) for name, value in headers.items()], body


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        event = await receive()
        if event["type"] == "lifespan.startup":
            tokens.load()
            registry.load()
            await asyncio.to_thread(_tell_of_missing_migrations)
            _warn_of_unbounded_heads()
            if threading.current_thread() is threading.main_thread():  # else it is somebody else's process
                _chain_sigterm(asyncio.get_running_loop())
                tell_of_crashes()
            lease.watch()
            garbage.begin()
            await send({"type": "lifespan.startup.complete"})
        else:
            await generation.shut_down()
            await lease.leave()
            await stateless_calls.all_ended()
            await registry.aclose()
            await send({"type": "lifespan.shutdown.complete"})
            return


def _warn_of_unbounded_heads() -> None:
    """uvicorn's own protocol on httptools takes headers and URLs that never end, at a cost that grows by the square."""
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
