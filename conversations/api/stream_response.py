"""Responses that are streamed and hold a reader's slot while they last."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
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
class HeldStream:
    """A stream with its reader's slot: `StreamingHttpResponse` closes what it iterates over, which frees the slot."""

    pieces: AsyncIterator[bytes]
    slot: ReaderSlot

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.pieces

    def close(self) -> None:
        self.slot.release()


def event_stream(events: AsyncIterator[bytes], slot: ReaderSlot | None = None) -> StreamingHttpResponse:
    """Return a response that streams `events` and holds `slot` until it ends."""
    return held_stream(events, slot, "text/event-stream", HEADERS)


def held_stream(
    pieces: AsyncIterator[bytes], slot: ReaderSlot | None, content_type: str, headers: Mapping[str, str]
) -> StreamingHttpResponse:
    """Return a response that streams `pieces` and holds `slot` until it ends."""
    content = pieces if slot is None else HeldStream(pieces, slot)
    return StreamingHttpResponse(content, content_type=content_type, headers=headers)
