"""Sends requests for streams by aiohttp, without the SDK: one POST, the bytes of its answer as they arrive.

The SDK and its HTTP client take nine tenths of the cost of a request, for features that a stream does not need:
models of options, merged URLs and headers, retries, five generators around each read. The SDK's headers, built once,
are still sent.
"""

from __future__ import annotations

import io
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from chatmemory.llm.openai import failures
from chatmemory.llm.openai.sdk_errors import NoAnswerError, refuse_status

KEPT_SECONDS = 5.0
"""How long an unused connection stays open. Servers close theirs after a while; it is better to be first."""
IN_ONE_PIECE = 512 * 1024
"""Bytes of a request that are written at once. Only images and files make a request longer."""


class StreamTransport:
    """The connections of one event loop to one URL."""

    def __init__(self, url: str, headers: Mapping[str, str], tls: ssl.SSLContext) -> None:
        self._url = url
        # Without a limit, because another stream would wait for a connection until its deadline.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_SECONDS, ssl=tls)
        self._session = aiohttp.ClientSession(
            connector=connector,
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
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        # Writing a long request in one piece would block the loop; aiohttp warns about that.
        sent = data if len(data) <= IN_ONE_PIECE else io.BytesIO(data)
        try:
            response = await self._session.post(self._url, data=sent, allow_redirects=False)
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise NoAnswerError(failures.UNREACHABLE, retry=True) from exc
        async with response:
            chunks = _Chunks(response.content)
            if not 200 <= response.status < 300:
                await refuse_status(response.status, response.headers, chunks)
            yield chunks

    async def close(self) -> None:
        await self._session.close()


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
