"""The ASGI application: Django, with lifespan, draining and a limit on bodies.

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
from types import FrameType
from typing import Any

import django
from django.core.exceptions import ImproperlyConfigured

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
try:
    django.setup()
except ImproperlyConfigured as exc:
    sys.exit(f"chatmemory cannot start: {exc}")

from django.conf import settings  # Django must be set up first
from django.core.handlers.asgi import ASGIHandler
from django.core.signals import request_started
from django.db import close_old_connections, reset_queries

from chatmemory import errors
from chatmemory.llm import registry
from chatmemory.observability import request_context, request_id, request_id_for, tell_of_crashes
from conversations import abandoned, generation, passing
from memory import tokens

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

# Under ASGI each request has a fresh thread for synchronous code, made when first needed: there is nothing for these to
# tidy up at its start, and to ask them would make that thread for every stream. At its end they are asked as ever.
for tidy in (close_old_connections, reset_queries):
    request_started.disconnect(tidy)
django_app = ASGIHandler()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["type"] == "http":
        await _http(scope, receive, send)


async def _http(scope: Scope, receive: Receive, send: Send) -> None:
    """Pass on to Django, but for bodies over the limit: declared, or found so while reading."""
    limit = settings.REQUEST_MAX_BYTES
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > limit:
        await _refuse(scope, send)
        return
    received = 0

    async def counted() -> Event:
        nonlocal received
        event = await receive()
        received += len(event.get("body", b""))
        # To Django it looks as if the client had left: so it closes what it has read so far, and answers nothing.
        return event if received <= limit else {"type": "http.disconnect"}

    await django_app(dict(scope), counted, send)  # type: ignore[arg-type]  # asgiref's narrower TypedDicts
    if received > limit:
        await _refuse(scope, send)


async def _refuse(scope: Scope, send: Send) -> None:
    """Answer 413, with the same header and line in the log as all that Django answers."""
    body = json.dumps(errors.error_body("too_large", errors.SENTENCES[413])).encode()
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    with request_context(request_id_for(given)):
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
            "x-request-id": request_id.get(),
        }
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 413, "headers": raw})
        await send({"type": "http.response.body", "body": body})
        facts = {"method": scope["method"], "path": scope["path"], "status": 413}
        logger.info("request", extra=facts)


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        event = await receive()
        if event["type"] == "lifespan.startup":
            tokens.load()
            if threading.current_thread() is threading.main_thread():  # else it is somebody else's process
                _chain_sigterm(asyncio.get_running_loop())
                tell_of_crashes()
            abandoned.watch()
            await send({"type": "lifespan.startup.complete"})
        else:
            await generation.shut_down()
            await abandoned.leave()
            await passing.all_ended()
            await registry.aclose()
            await send({"type": "lifespan.shutdown.complete"})
            return


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
