"""Sends requests for streams by aiohttp, without the SDK: one POST, the bytes of its answer as they arrive.

The SDK and its HTTP client take nine tenths of the cost of a request, for features that a stream does not need:
models of options, merged URLs and headers, retries, five generators around each read. The SDK's headers, built once,
are still sent.
"""

from __future__ import annotations

import base64
import io
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from chatmemory.llm.attachments import Attachment, base64_length, json_parts, slices
from chatmemory.llm.openai import failures
from chatmemory.llm.openai.sdk_errors import NoAnswerError, refuse_status

KEPT_SECONDS = 5.0
"""How long an unused connection stays open. Servers close theirs after a while; it is better to be first."""
IN_ONE_PIECE = 512 * 1024
"""Bytes of a request that are written at once."""


MAX_INTERIM = 10
"""Maximum number of interim answers (`100 Continue`) before the answer."""


class BoundedResponse(aiohttp.ClientResponse):
    """aiohttp's, which reads any number of interim answers: 200,000 of them stopped the loop for seconds."""

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        protocol = connection.protocol
        read, left = protocol.read, MAX_INTERIM

        async def bounded() -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise aiohttp.ClientConnectionError("too many interim answers")
            return await read()

        protocol.read = bounded
        try:
            return await super().start(connection)
        finally:
            del protocol.read


class StreamTransport:
    """The connections of one event loop to one URL."""

    def __init__(self, url: str, headers: Mapping[str, str], tls: ssl.SSLContext) -> None:
        self._url = url
        # Without a limit, because another stream would wait for a connection until its deadline.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_SECONDS, ssl=tls)
        self._session = aiohttp.ClientSession(
            connector=connector,
            response_class=BoundedResponse,
            # Compression is refused, so that a few bytes on the wire cannot become many in memory.
            headers={**headers, "Content-Type": "application/json", "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            # Looked up once: `trust_env` would look for a netrc in a thread at each request.
            proxy=_proxy_for(url),
        )

    @asynccontextmanager
    async def answering(self, body: Mapping[str, Any]) -> AsyncIterator[AsyncIterator[bytes]]:
        """Make one request and yield the bytes of its answer, empty at the end. On exit, return the connection.

        Raises `NoAnswerError` if there is no successful answer. A connection that breaks later raises aiohttp's
        error.
        """
        parts = [
            part if isinstance(part, Attachment) else part.encode()
            for part in json_parts(body, separators=(",", ":"), allow_nan=False)
        ]
        try:
            response = await self._session.post(self._url, **_content(parts), allow_redirects=False)
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise NoAnswerError(failures.UNREACHABLE, retry=True) from exc
        async with response:
            chunks = _Chunks(response.content)
            if not 200 <= response.status < 300:
                await refuse_status(response.status, response.headers, chunks)
            yield chunks

    async def close(self) -> None:
        await self._session.close()


def _content(parts: Sequence[bytes | Attachment]) -> dict[str, Any]:
    """The arguments for a request with this body. Images and files are read and encoded while they are sent."""
    first = parts[0]
    if len(parts) == 1 and isinstance(first, bytes):
        # Writing a long request in one piece would block the loop; aiohttp warns about that.
        return {"data": first if len(first) <= IN_ONE_PIECE else io.BytesIO(first)}
    length = sum(
        len(part) if isinstance(part, bytes) else len(part.data_url_head) + base64_length(part.size)
        for part in parts
    )
    return {"data": _sent(parts), "headers": {"Content-Length": str(length)}}  # not every server reads chunks


async def _sent(parts: Sequence[bytes | Attachment]) -> AsyncIterator[bytes]:
    """Yield a body in pieces."""
    for part in parts:
        if isinstance(part, bytes):
            for start in range(0, len(part), IN_ONE_PIECE):
                yield part[start : start + IN_ONE_PIECE]
            continue
        yield part.data_url_head.encode()
        if part.pieces is not None:
            async for piece in part.pieces:
                yield base64.b64encode(piece)
        else:
            for piece in slices(part.data or b""):
                yield base64.b64encode(piece)


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment names for a URL."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


class _Chunks(AsyncIterator[bytes]):
    """Iterates over a body, with all available bytes per read."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._read = content.readany

    async def __anext__(self) -> bytes:
        if chunk := await self._read():
            return chunk
        raise StopAsyncIteration
