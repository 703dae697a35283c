"""A reply that is not stored, as the events or the final message of the API, without the ids of a chat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from conversations.replies import sse
from conversations.replies.stateless import StatelessReply, StatelessRequest


async def events(asked: StatelessRequest) -> AsyncIterator[bytes]:
    """Stream the reply as events of the API. The upstream is called once the first event has been read."""
    yield sse.event("message.created", {"model_variant": asked.variant.name})
    with StatelessReply(asked) as reading:
        while not reading.is_over:
            if text := await reading.more(sse.KEEP_ALIVE_SECONDS):
                yield sse.event("content.delta", {"delta": text})
            elif not reading.is_over:
                yield sse.comment()
        message = reading.message()
        await reading.settle()
    ending = "completed" if message["status"] == "complete" else message["status"]
    error = {"error": message["error"]} if message["error"] else {}
    yield sse.event(f"message.{ending}", {"message": message, **error})


async def final_message(asked: StatelessRequest) -> tuple[dict[str, Any], int | None]:
    """Return the final message of the API, and the upstream's `Retry-After` in seconds."""
    with StatelessReply(asked) as reading:
        while not reading.is_over:
            await reading.more(sse.KEEP_ALIVE_SECONDS)
        await reading.settle()
        failure = reading.failure
        return reading.message(), failure.retry_after if failure else None
