"""The ASGI application: Django behind limits on a request's URL, headers and body, with lifespan and draining.

`chatmemory.http_protocol` stops endless heads even earlier, while they arrive.

uvicorn never exits while a stream is open, and calls lifespan shutdown only after connections have closed (measured).
A SIGTERM handler, chained in at startup, therefore tells readers to reconnect elsewhere; shutdown then lets replies
be generated for another `REPLY_DRAIN_SECONDS` and finishes the remaining ones as incomplete.
"""

import asyncio
import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import FrameType
from typing import IO, Any, cast

import django
from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, RequestAborted

from chatmemory.database import startup

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
try:
    if not apps.ready:  # else another program's process
        startup.require_database(settings.DATABASES["default"])
        django.setup()
except ImproperlyConfigured as exc:
    startup.end_server(f"chatmemory cannot start: {exc}")

from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.core.signals import request_started
from django.db import DatabaseError, InterfaceError, close_old_connections, reset_queries
from knox.crypto import hash_token
from knox.models import AuthToken

from chatmemory.api.async_view import SMALL_BYTES
from chatmemory.api.error_handler import ERRORS, error_body
from chatmemory.api.middleware import PROBES, count_request
from chatmemory.database import executors
from chatmemory.llm import registry
from chatmemory.runtime import process, tracing
from chatmemory.runtime.logs import log_uncaught_exceptions, request_context, request_id, request_id_for
from chatmemory.text import tokens
from conversations.openai_api.errors import openai_body
from conversations.replies import generation

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

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


THREADS_KEPT = 16
"""Maximum number of idle threads that are kept for the synchronous code of later requests."""


class ServerHandler(ASGIHandler):
    request_class = ServerRequest

    def __init__(self) -> None:
        super().__init__()
        self._idle: list[ThreadPoolExecutor] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Handle a request with one thread for its synchronous code, as Django requires, but one that is kept.

        Django makes a thread for each request, if only to close its answer: a tenth of the CPU of a stream.
        """
        context = ThreadSensitiveContext()
        executor = self._idle.pop() if self._idle else ThreadPoolExecutor(1, thread_name_prefix="request")
        SyncToAsync.context_to_thread_executor[context] = executor
        token = SyncToAsync.thread_sensitive_context.set(context)
        try:
            await self.handle(scope, receive, send)
        finally:
            SyncToAsync.thread_sensitive_context.reset(token)
            if len(self._idle) < THREADS_KEPT:
                self._idle.append(executor)
            else:
                executor.shutdown(wait=False)

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
        asked = scope["method"], scope["path"], scope.get("scheme", "http"), scope["headers"]
        with tracing.OFF if scope["path"] in PROBES else tracing.request_span(*asked):
            await _pass_on(cast(Application, django_app), scope, receive, send)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        event = await receive()
        if event["type"] == "lifespan.startup":
            tokens.load()
            registry.load()
            await asyncio.to_thread(startup.log_missing_migrations)
            if "uvicorn.protocols.http.httptools_impl" in sys.modules and "chatmemory.http_protocol" not in sys.modules:
                # It accepts endless headers and URLs, at quadratic cost.
                logger.warning("headers are not bounded: start the server with `chatmemory serve`")
            if threading.current_thread() is threading.main_thread():  # else another program's process
                _chain_sigterm(asyncio.get_running_loop())
                log_uncaught_exceptions()
            tracing.set_up(settings.SECRET_KEY, process.name())
            generation.watch()
            process.settle()
            await send({"type": "lifespan.startup.complete"})
        else:
            await generation.shut_down()
            await registry.aclose()
            await asyncio.to_thread(tracing.shut_down)
            await send({"type": "lifespan.shutdown.complete"})
            return


def _chain_sigterm(loop: asyncio.AbstractEventLoop) -> None:
    """Start draining before the server's own handlers run. Only a main thread may install handlers."""
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handler(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(generation.start_draining)
        if callable(before[number]):
            before[number](number, frame)

    for number in before:
        signal.signal(number, handler)


OPENAI_PATHS = ("/v1/chat/", "/v1/responses")
"""The prefixes of OpenAI-compatible paths. Their clients send whole histories, and expect errors in OpenAI's format."""
LARGE_PATHS = (*OPENAI_PATHS, "/v1/chats/import")
"""Prefixes of paths whose bodies may have `OPENAI_REQUEST_MAX_BYTES`."""
HEADERS_MAX = 200
"""Maximum number of request headers. Browsers send about twenty, and proxies add a few."""


async def _pass_on(app: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """Pass the request to `app`, unless its URL, headers or body (as declared or as received) exceed a limit."""
    is_large = scope["path"].startswith(LARGE_PATHS)
    limit = settings.OPENAI_REQUEST_MAX_BYTES if is_large else settings.REQUEST_MAX_BYTES
    status = _refused_by_its_head(scope, limit)
    if status or (is_large and await _is_strangers(scope)):
        await _refuse(scope, receive, send, status or 401)
        return
    received = 0

    async def counted() -> Event:
        nonlocal received
        event = await receive()
        received += len(event.get("body", b""))
        # To Django this looks like a disconnect: it closes what it has read so far, and answers nothing.
        return event if received <= limit else {"type": "http.disconnect"}

    await app(dict(scope), counted, send)
    if received > limit:
        await _refuse(scope, receive, send, 413)


def _refused_by_its_head(scope: Scope, body_limit: int) -> int | None:
    """The status to refuse a request with, None if nothing exceeds its limit."""
    url = len(scope.get("raw_path", b"")) + len(scope["query_string"])
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if url > settings.REQUEST_HEAD_MAX_BYTES // 2:
        return 414
    # Plus a colon, a space and the end of the line for each. The HTTP protocol counts, too, but not exactly.
    size = url + sum(len(name) + len(value) + 4 for name, value in headers)
    if len(headers) > HEADERS_MAX or size > settings.REQUEST_HEAD_MAX_BYTES:
        return 431
    declared = dict(headers).get(b"content-length", b"0")
    return 413 if declared.isdigit() and int(declared) > body_limit else None


async def _is_strangers(scope: Scope) -> bool:
    """Whether a large body comes with neither a cookie nor a token that exists: then it is not read."""
    headers = dict(scope["headers"])
    declared = headers.get(b"content-length", b"0")
    is_small = b"transfer-encoding" not in headers and declared.isdigit() and int(declared) <= SMALL_BYTES
    if is_small or b"cookie" in headers:
        return False
    token = headers.get(b"authorization", b"").partition(b" ")[2].decode("latin-1").strip()
    with suppress(DatabaseError, InterfaceError):  # the view says so
        return not await executors.read(AuthToken.objects.filter(digest=hash_token(token)).exists)
    return False


LINGER_SECONDS = 2.0
LINGER_BYTES = 64 * 1024 * 1024
"""The limits up to which the rest of a refused body is read and discarded."""


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int) -> None:
    """Refuse a request, with the same headers and log line as Django's answers have.

    The connection stays open for a moment while the rest of the body arrives. Closed at once, it would be reset, and
    a client that is still sending may never read the answer; nginx turns that into 502.
    """
    given = dict(scope["headers"])
    origin, request_id_given = (given.get(name, b"").decode("latin-1") for name in (b"origin", b"x-request-id"))
    headers, body = refusal(status, scope["method"], scope["path"], request_id_given)
    if origin in settings.CORS_ALLOWED_ORIGINS and re.match(settings.CORS_URLS_REGEX, scope["path"]):
        headers += [(b"access-control-allow-origin", origin.encode()), (b"vary", b"origin")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    if not any(name == b"expect" for name, _ in scope["headers"]):  # the client waits with its body
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                size, has_more = 0, True
                while has_more and size < LINGER_BYTES:
                    event = await receive()
                    size += len(event.get("body", b""))
                    has_more = event.get("more_body", False)
    await send({"type": "http.response.body", "body": b""})


PATH_LOGGED = 200
"""Maximum characters of a path in the log, for requests that are refused before Django sees them."""


def refusal(status: int, method: str, path: str, request_id_given: str = "") -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Build the headers and the body of a refusal, and log it. The connection is closed after it."""
    answer = error_body(*ERRORS[status])
    body = json.dumps(openai_body(status, answer["error"]) if path.startswith(OPENAI_PATHS) else answer).encode()
    with request_context(request_id_for(request_id_given)):
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "cache-control": "no-store",
            "connection": "close",
            "x-request-id": request_id.get(),
        }
        logger.info("request", extra={"method": method, "path": path[:PATH_LOGGED], "status": status})
    tracing.request_answered(method, status)
    count_request(method, "", status, 0.0)
    return [(name.encode(), value.encode()) for name, value in headers.items()], body
