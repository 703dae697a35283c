"""The ASGI application: Django, with lifespan, draining and a limit on bodies.

uvicorn never exits while a stream is open and calls lifespan shutdown only after connections have closed (measured).
So a SIGTERM handler, chained in at startup, tells readers to reconnect elsewhere; shutdown then lets generations go on
for `REPLY_DRAIN_SECONDS` and finishes what is left as incomplete.
"""

from __future__ import annotations

import asyncio
import json
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
from conversations import generation
from memory import tokens

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
        await _refuse(send)
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
        await _refuse(send)


async def _refuse(send: Send) -> None:
    body = json.dumps(errors.error_body("too_large", errors.SENTENCES[413])).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send(
        {"type": "http.response.start", "status": 413, "headers": [*headers, (b"connection", b"close")]}
    )
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        event = await receive()
        if event["type"] == "lifespan.startup":
            tokens.load()
            _chain_sigterm(asyncio.get_running_loop())
            await send({"type": "lifespan.startup.complete"})
        else:
            await generation.shut_down()
            await registry.aclose()
            await send({"type": "lifespan.shutdown.complete"})
            return


def _chain_sigterm(loop: asyncio.AbstractEventLoop) -> None:
    """Start draining before the server's own handler runs. Only a main thread may install handlers."""
    if threading.current_thread() is not threading.main_thread():
        return
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
