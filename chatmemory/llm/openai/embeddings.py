"""Embeddings from the `/embeddings` endpoint of OpenAI and compatible servers.

Built from values; reads no settings. Whatever the endpoint does, a call ends in time, with one vector per text, or
with `UpstreamError`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any
from weakref import WeakKeyDictionary

import httpx2
from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient

from chatmemory.llm.openai import failures, responses
from chatmemory.llm.openai.hosts import NO_KEY, OPENAI_URL
from chatmemory.llm.openai.sdk_errors import NoAnswerError, no_answer, read_bounded, refuse_errors
from chatmemory.llm.openai.sync import forbid_running_loop, run_in_private_loop
from chatmemory.llm.protocol import UpstreamError
from chatmemory.llm.vectors import Embedded

BATCH = 128
"""Maximum number of texts in one request."""
MAX_ANSWER_BYTES = 16 * 1024 * 1024
SHORTEST = 1e-6
"""A shorter vector has no meaningful direction."""


class UpstreamEmbedder:
    """One model of one server. Threads and event loops may share it: each loop has its own connections."""

    batch = BATCH

    def __init__(self, *, api_key: str, base_url: str | None, model: str, dimensions: int) -> None:
        self.model, self.dimensions = model, dimensions
        self._api_key, self._base_url = api_key or NO_KEY, base_url or OPENAI_URL
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = WeakKeyDictionary()

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """Return the vectors of `texts` within `timeout` seconds, with one request. Raise `UpstreamError`."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self._new_client()
        return await self._ask(client, texts, timeout)

    def embed_now(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """Do the same in a thread without a running event loop (otherwise `RuntimeError`)."""
        forbid_running_loop()
        return run_in_private_loop(self._once(texts, timeout))

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        if client := self._clients.pop(asyncio.get_running_loop(), None):
            await client.close()

    async def _once(self, texts: Sequence[str], seconds: float) -> Embedded:
        client = self._new_client()
        try:
            return await self._ask(client, texts, seconds)
        finally:
            await client.close()

    async def _ask(self, client: AsyncOpenAI, texts: Sequence[str], seconds: float) -> Embedded:
        try:
            async with asyncio.timeout(seconds):
                answer = await self._answer(client, texts)
            return read_answer(answer, len(texts), self.dimensions)
        except Exception as exc:  # noqa: BLE001 - callers handle one exception; `no_answer` classifies them
            error = no_answer(exc).error
            raise UpstreamError(error.code, error.message, error.retry_after) from None

    async def _answer(self, client: AsyncOpenAI, texts: Sequence[str]) -> dict[str, Any]:
        body = {
            "model": self.model,
            "input": [text.encode("utf-8", "replace").decode() for text in texts],
            "dimensions": self.dimensions,
            "encoding_format": "float",
        }
        response: Any = await client.post(
            "/embeddings",
            cast_to=httpx2.Response,
            body=body,
            options={"headers": {"Accept-Encoding": "identity"}},
            stream=True,  # so that an endless answer is not read to its end
            stream_cls=AsyncStream[Any],
        )
        try:
            async with aclosing(response.aiter_bytes()) as chunks:
                return responses.load_object(
                    await read_bounded(chunks, MAX_ANSWER_BYTES, failures.INVALID_RESPONSE)
                )
        finally:
            await response.aclose()

    def _new_client(self) -> AsyncOpenAI:
        http = DefaultAioHttpClient(follow_redirects=False, event_hooks={"response": [refuse_errors]})
        return AsyncOpenAI(
            api_key=self._api_key, base_url=self._base_url, max_retries=0, timeout=None, http_client=http
        )


def read_answer(answer: dict[str, Any], number: int, dimensions: int) -> Embedded:
    """Read the vectors from an answer to `number` texts. Raise `NoAnswerError` if number or size are wrong."""
    data = answer.get("data")
    if not isinstance(data, list) or len(data) != number:
        raise NoAnswerError(failures.INVALID_RESPONSE)
    found = {_index(item): item for item in data}
    if set(found) != set(range(number)):
        raise NoAnswerError(failures.INVALID_RESPONSE)
    usage = answer.get("usage")
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else 0
    counted = tokens if type(tokens) is int and 0 <= tokens <= responses.MAX_TOKENS else 0
    return Embedded(tuple(_unit(found[at].get("embedding"), dimensions) for at in range(number)), counted)


def _index(item: object) -> int:
    index = item.get("index") if isinstance(item, dict) else None
    return index if type(index) is int else -1


def _unit(values: object, dimensions: int) -> list[float]:
    """The vector of these numbers, with length one."""
    if not isinstance(values, list) or len(values) != dimensions:
        raise NoAnswerError(failures.INVALID_RESPONSE)
    if not all(type(value) in (int, float) and abs(value) < 1e9 for value in values):  # NaN fails this, too
        raise NoAnswerError(failures.INVALID_RESPONSE)
    length = math.hypot(*values)
    if length < SHORTEST:
        raise NoAnswerError(failures.INVALID_RESPONSE)
    return [value / length for value in values]
