"""Responses that carry events, and hold the slot of who reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from django.http import StreamingHttpResponse

from conversations.replies.reader_limits import ReaderSlot

EVENTS = {"$ref": "#/components/schemas/ReplyEvent"}
HEADERS = {
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
    # Compressing middleware would cut a stream into members that clients do not join.
    "Content-Encoding": "identity",
}


@dataclass(frozen=True, slots=True)
class HeldEvents:
    """Events, and the slot of who reads them: `StreamingHttpResponse` closes what it iterates over."""

    events: AsyncIterator[bytes]
    slot: ReaderSlot

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.events

    def close(self) -> None:
        self.slot.release()


def event_stream(events: AsyncIterator[bytes], slot: ReaderSlot | None = None) -> StreamingHttpResponse:
    """The response that carries `events`; it holds `slot` until it ends."""
    content = events if slot is None else HeldEvents(events, slot)
    return StreamingHttpResponse(content, content_type="text/event-stream", headers=HEADERS)
