"""Sends webhook events from their table: one thread of the worker, with an event loop of its own.

So a receiver that is slow or gone holds up nothing else. Each call has `CALL_SECONDS`. It goes to the URL itself:
without proxies, without following redirects, and never to a private address (see `addresses`). What a receiver answers
is not kept; any status of 2xx is a success.
"""

import asyncio
import json
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import httpcore2
import httpx2
from django.conf import settings
from standardwebhooks import Webhook

from chatmemory.database import executors
from conversations.webhooks import outbox
from conversations.webhooks.addresses import ForbiddenAddress, is_public, url_problem
from conversations.webhooks.models import WebhookEvent

logger = logging.getLogger(__name__)

CALL_SECONDS = 10.0
POLL_SECONDS = 1.0
"""How often the table is looked at while nothing is due."""
MAX_ANSWER_BYTES = 4096
"""Bytes that are read of an answer, so that its connection can be used again."""
AWAY = "webhook events could not be read or stored"
"""Logged while the database is away: what is not recorded is sent again later."""


def start(stopped: threading.Event) -> threading.Thread:
    """Deliver until `stopped`, in a thread that is returned: it ends once its last calls have."""
    thread = threading.Thread(target=_run, args=(stopped,), name="webhooks", daemon=True)
    thread.start()
    return thread


def _run(stopped: threading.Event) -> None:
    while not stopped.is_set():
        try:
            asyncio.run(_deliver(stopped))
        except Exception:
            logger.exception("webhooks are not delivered for a moment")
            stopped.wait(10 * POLL_SECONDS)


async def _deliver(stopped: threading.Event) -> None:
    # A name that takes long to resolve keeps its thread, even if the call has ended.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(4 * outbox.MAX_AT_ONCE))
    async with httpcore2.AsyncConnectionPool(
        httpx2.create_ssl_context(),
        max_connections=outbox.MAX_AT_ONCE,
        keepalive_expiry=5.0,
        network_backend=PublicNetwork(),
    ) as pool:
        running = dict[asyncio.Task[None], int]()
        while not stopped.is_set():
            for event in await executors.try_write(AWAY, outbox.take, Counter(running.values())) or ():
                running[asyncio.create_task(_deliver_one(pool, event))] = event.app_id
            idle = asyncio.create_task(asyncio.sleep(POLL_SECONDS))
            await asyncio.wait([idle, *running], return_when=asyncio.FIRST_COMPLETED)
            running = {task: app for task, app in running.items() if not task.done()}
        if running:
            await asyncio.wait(running, timeout=CALL_SECONDS)


async def _deliver_one(pool: httpcore2.AsyncConnectionPool, event: WebhookEvent) -> None:
    """Send an event and record how that went."""
    if error := await _error_of(pool, event):
        await executors.try_write(AWAY, outbox.record_failure, event, error)
    else:
        await executors.try_write(AWAY, outbox.record_delivery, event)


async def _error_of(pool: httpcore2.AsyncConnectionPool, event: WebhookEvent) -> str:
    """Send an event, and return why it was not delivered, or "". Nothing of it comes from the answer's text."""
    url = event.app.webhook_url
    if problem := url_problem(url, allow_private=settings.WEBHOOK_ALLOW_PRIVATE):
        return problem
    body, headers = signed(event, time.time())
    status = 0
    try:
        async with (
            asyncio.timeout(CALL_SECONDS),
            pool.stream("POST", url, headers=headers, content=body) as answer,
        ):
            status, size = answer.status, 0
            async for piece in answer.aiter_stream():
                size += len(piece)
                if size > MAX_ANSWER_BYTES:
                    break
    except Exception as exc:  # noqa: BLE001  # any error that a receiver provokes is its failure
        if not status:
            return _reason(exc)
    return "" if 200 <= status < 300 else f"It answered with status {status}."


def _reason(failure: Exception) -> str:
    """Why there was no answer, in a sentence."""
    match failure:
        case TimeoutError():
            return f"It did not answer within {CALL_SECONDS:.0f} seconds."
        case ForbiddenAddress():
            return str(failure)
        case OSError() | httpcore2.ConnectError():
            return f"It could not be reached: {failure}"[:200]
    return f"The connection failed: {type(failure).__name__}."


def signed(event: WebhookEvent, now: float) -> tuple[bytes, list[tuple[str, str]]]:
    """The body of an event, the same in each attempt, and its headers by Standard Webhooks."""
    data = {"chat_id": str(event.chat_id), "end_user": event.end_user, **event.figures}
    content = {"type": event.type, "timestamp": event.created_at.isoformat(), "data": data}
    body, name, at = json.dumps(content), str(event.event_id), datetime.fromtimestamp(int(now), UTC)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "chatmemory",
        "webhook-id": name,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": Webhook(event.app.webhook_secret).sign(name, at, body),
    }
    return body.encode(), [*headers.items()]


class PublicNetwork(httpcore2.AnyIOBackend):
    """Connects to public addresses only: a name is resolved here, once, and its addresses are checked."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # IPv4 first, because a server without IPv6 may wait long for it.
        addresses = sorted({str(place[0]) for *_, place in found}, key=lambda one: ":" in one)
        if not (settings.WEBHOOK_ALLOW_PRIVATE or all(map(is_public, addresses))):
            raise ForbiddenAddress("Its name leads into a private network.")
        error: Exception = OSError("its name has no address")
        for address in addresses:
            try:
                return await super().connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore2.ConnectError as exc:
                error = exc
        raise error
