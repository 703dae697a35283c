"""Embeddings from the `/embeddings` endpoint of OpenAI and compatible servers.

Built from values; reads no settings. Whatever the endpoint does, a call ends in time, with one vector per text, or
with `UpstreamError`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from chatmemory.llm.openai import failures, responses
from chatmemory.llm.openai.transport import NoAnswerError, Server, forbid_running_loop, no_answer
from chatmemory.llm.protocol import Embedded, UpstreamError

BATCH = 128
"""Maximum number of texts in one request."""
MAX_ANSWER_BYTES = 16 * 1024 * 1024
SHORTEST = 1e-6
"""A shorter vector has no meaningful direction."""


class UpstreamEmbedder:
    """One model of one server. Threads and event loops may share it."""

    batch = BATCH

    def __init__(self, *, api_key: str, base_url: str, model: str, dimensions: int) -> None:
        self.model, self.dimensions = model, dimensions
        self._server = Server(api_key, base_url)

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """Return the vectors of `texts` within `timeout` seconds, with one request. Raise `UpstreamError`."""
        body = {
            "model": self.model,
            "input": [text.encode("utf-8", "replace").decode() for text in texts],
            "dimensions": self.dimensions,
            "encoding_format": "float",
        }
        try:
            async with asyncio.timeout(timeout):
                answer = await self._server.whole_answer(
                    "/embeddings", body, MAX_ANSWER_BYTES, failures.INVALID_RESPONSE
                )
            return read_answer(responses.load_object(answer), len(texts), self.dimensions)
        except Exception as exc:  # noqa: BLE001 - callers handle one exception; `no_answer` classifies them
            error = no_answer(exc).error
            raise UpstreamError(error.code, error.message, error.retry_after) from None

    def embed_now(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """Do the same in a thread without a running event loop (otherwise `RuntimeError`)."""
        forbid_running_loop()
        return self._server.run(self.embed(texts, timeout=timeout))

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        await self._server.aclose()


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
