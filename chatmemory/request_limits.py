"""Limits on a request's URL, headers and body, and the refusal of one that exceeds them, before Django sees it.

`chatmemory.http_protocol` stops endless heads even earlier, while they arrive.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from django.conf import settings

from chatmemory.api import error_handler
from chatmemory.runtime.logs import request_context, request_id, request_id_for
from conversations.openai_api.errors import openai_body

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

OPENAI_PATH = "/v1/chat/"
"""The prefix of OpenAI-compatible paths. Their clients send whole histories, and expect errors in OpenAI's format."""
HEADERS_MAX = 200
"""Maximum number of request headers. Browsers send about twenty, and proxies add a few."""


async def pass_on(app: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """Pass the request to `app`, unless its URL, headers or body (as declared or as received) exceed a limit."""
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


LINGER_SECONDS = 2.0
LINGER_BYTES = 64 * 1024 * 1024
"""The limits up to which the rest of a refused body is read and discarded."""


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int) -> None:
    """Refuse a request, with the same headers and log line as Django's answers have.

    The connection stays open for a moment while the rest of the body arrives. Closed at once, it would be reset, and
    a client that is still sending may never read the answer; nginx turns that into 502.
    """
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    headers, body = refusal(status, scope["method"], scope["path"], given)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    if not any(name == b"expect" for name, _ in scope["headers"]):  # the client waits with its body
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await _throw_away(receive)
    await send({"type": "http.response.body", "body": b""})


async def _throw_away(receive: Receive) -> None:
    """Read and discard a body, up to its end or to `LINGER_BYTES`."""
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
"""Error codes by status, for requests that are refused before Django sees them."""
PATH_LOGGED = 200
"""Maximum characters of a path in the log, for requests that are refused before Django sees them."""


def refusal(
    status: int, method: str, path: str, request_id_given: str = ""
) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Build the headers and the body of a refusal, and log it. The connection is closed after it."""
    answer = error_handler.error_body(REFUSALS[status], error_handler.SENTENCES[status])
    body = json.dumps(
        openai_body(status, answer["error"]) if path.startswith(OPENAI_PATH) else answer
    ).encode()
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
