"""The connections to a server, shared by event loops and threads: they send requests and read bytes, by the OpenAI SDK.

Built from values; reads no settings. No type of the SDK leaves it. Its own reading of answers is not used:
it takes a cut stream for a whole one, and reads an endless answer to its end.
"""

import asyncio
import atexit
import base64
import functools
import os
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import httpx2
from openai import (
    APIConnectionError,
    AsyncOpenAI,
    AsyncStream,
    DefaultAioHttpClient,
    OpenAIError,
)

from chatmemory.llm.attachments import Attachment, json_parts, slices
from chatmemory.llm.openai import failures, reading
from chatmemory.llm.openai.requests import OPENAI_URL
from chatmemory.llm.protocol import UpstreamError
from chatmemory.runtime import tracing

T = TypeVar("T")

MAX_ANSWER_BYTES = 16 * 1024 * 1024
CLOSE_SECONDS = 1.0
MAX_ERROR_BYTES = 64 * 1024
_tls_context = functools.cache(httpx2.create_ssl_context)
"""One for all clients: reading the certificates (20 ms) takes longer than the rest of creating a client. Made at first
use: where `SSL_CERT_FILE` cannot be read, calls fail, and server and worker start all the same."""
LIMITS = httpx2.Limits(max_connections=0, max_keepalive_connections=None, keepalive_expiry=5.0)
"""Any number of connections (aiohttp's 0), because another stream would wait for one until its deadline. An unused one
is closed after a few seconds, so that we are first: a request on a connection that the server closes would fail.
"""


class Server:
    """One server. Threads and event loops may share it: each loop has its own connections, made at first use."""

    def __init__(self, api_key: str, base_url: str) -> None:
        self._api_key = api_key or "no-key"  # the SDK refuses an empty one
        self._base_url = (base_url or OPENAI_URL).rstrip("/")
        self._clients = WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI]()
        _servers.append(self)

    async def chunks(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """Post `body` and yield the bytes of the answer as they arrive. To be closed (`aclosing`) when left early.

        `as_upstream_error` tells what its exceptions mean. Uses the client's `post`, because `responses.create` walks
        through every message again to check its type.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self._new_client()
        content, headers = _content(body)
        response: Any = await self._clients[loop].post(
            self._base_url + path,  # whole, because the SDK would parse and merge a path for each call
            cast_to=httpx2.Response,
            content=content,
            options={"headers": {**headers, **tracing.carrier()}},
            stream=True,
            stream_cls=AsyncStream[Any],
        )
        try:
            async with aclosing(aiter(response.stream)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            await response.aclose()  # an iterator that was never started closes nothing

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that uses this server to its end, and raise its errors. An interruption cancels it.

        For threads without a running event loop. They share one, and with it the connections: a call takes half the
        CPU of one with a loop and a client of its own (1.9 and 4.0 ms), and no handshake.
        """
        future = asyncio.run_coroutine_threadsafe(work, _loop_of_threads(os.getpid()))
        try:
            return future.result()
        finally:
            future.cancel()

    def _new_client(self) -> AsyncOpenAI:
        # aiohttp parses answers in C, and returns all that has arrived in one read: a third of the CPU of a stream by
        # the SDK's default transport.
        http = DefaultAioHttpClient(
            verify=_tls_context(),
            limits=LIMITS,
            follow_redirects=False,
            event_hooks={"response": [_refuse_errors]},
        )
        return AsyncOpenAI(
            api_key=self._api_key,
            base_url=self._base_url,
            max_retries=0,
            timeout=None,
            default_headers={"Accept-Encoding": "identity"},  # a few bytes could become many in memory
            http_client=http,
        )


_servers: list[Server] = []
"""All of this process, which is one or two."""


async def aclose() -> None:
    """Close the running loop's connections to all servers."""
    for server in _servers:
        if client := server._clients.pop(asyncio.get_running_loop(), None):
            await client.close()


@functools.cache
def _loop_of_threads(pid: int) -> asyncio.AbstractEventLoop:
    """Start the loop of this process; a fork needs another. If two threads are first at once, each may start one."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="upstream", daemon=True).start()
    atexit.register(_close, loop)
    return loop


def _close(loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError, TimeoutError):  # at the end of a process, some of it may be gone already
        asyncio.run_coroutine_threadsafe(aclose(), loop).result(CLOSE_SECONDS)


def as_upstream_error(exc: Exception) -> UpstreamError:
    """Return the `UpstreamError` for any exception of a request.

    Deadlines are ours, and the SDK's are off: what it calls a timeout is a failed connection.
    """
    for error in (exc, exc.__cause__):  # the SDK takes what `_refuse_errors` raises for a failed connection
        if isinstance(error, UpstreamError):
            return error
    if isinstance(exc, TimeoutError):
        failure = UpstreamError(failures.TIMED_OUT)
    elif isinstance(exc, APIConnectionError):
        failure = UpstreamError(failures.UNREACHABLE, may_retry=True)
    elif isinstance(exc, OpenAIError | TypeError | UnicodeError):
        failure = UpstreamError(failures.NOT_SENT)
    else:
        failure = UpstreamError(failures.BROKE_OFF, may_retry=True)
    failure.__cause__ = exc
    return failure


async def _refuse_errors(response: httpx2.Response) -> None:
    """Raise for an unsuccessful status, before the SDK reads the whole body, which may be large."""
    if response.is_success:
        return
    try:
        body = await whole(response.aiter_bytes(), MAX_ERROR_BYTES)
    except UpstreamError:
        body = b""
    after = failures.retry_after_in(response.headers, body.decode(errors="replace"), now=time.time())
    raise failures.from_status(response.status_code, reading.error_in_body(body), after=after)


async def whole(chunks: AsyncGenerator[bytes, None], limit: int = MAX_ANSWER_BYTES) -> bytes:
    """Return the whole body of an answer. Raise `UpstreamError` if it is longer than `limit`."""
    body = bytearray()
    async with aclosing(chunks):
        async for chunk in chunks:
            body += chunk
            if len(body) > limit:
                raise UpstreamError(failures.TOO_LONG)
    return bytes(body)


def _content(body: Mapping[str, Any]) -> tuple[bytes | AsyncIterator[bytes], dict[str, str]]:
    """The JSON of a body, and its headers. Images and files are read and encoded while they are sent."""
    parts = [
        part if isinstance(part, Attachment) else part.encode()
        for part in json_parts(body, separators=(",", ":"), allow_nan=False)
    ]
    if isinstance(first := parts[0], bytes) and len(parts) == 1:
        return first, {}
    length = sum(
        len(part) if isinstance(part, bytes) else len(part.data_url_head) + (part.size + 2) // 3 * 4 for part in parts
    )
    return _pieces(parts), {"Content-Length": str(length)}  # not every server reads chunks


async def _pieces(parts: Sequence[bytes | Attachment]) -> AsyncIterator[bytes]:
    for part in parts:
        if isinstance(part, bytes):
            yield part
            continue
        yield part.data_url_head.encode()
        if part.pieces is not None:
            async for piece in part.pieces:
                yield base64.b64encode(piece)
        else:
            for piece in slices(part.data or b""):
                yield base64.b64encode(piece)
