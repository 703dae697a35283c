"""Responses that carry server-sent events and hold a reader's slot while they last."""

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
    """Events with their reader's slot: `StreamingHttpResponse` closes what it iterates over, which frees the slot."""

    events: AsyncIterator[bytes]
    slot: ReaderSlot

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.events

    def close(self) -> None:
        self.slot.release()


def event_stream(events: AsyncIterator[bytes], slot: ReaderSlot | None = None) -> StreamingHttpResponse:
    """Return a response that streams `events` and holds `slot` until it ends."""
    content = events if slot is None else HeldEvents(events, slot)
    return StreamingHttpResponse(content, content_type="text/event-stream", headers=HEADERS)
