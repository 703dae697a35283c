"""The events of a reply as bytes: `message.created`, its deltas, and the last one.

Each delta and last event is encoded once for all readers at the same position.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from conversations.models import Message
from conversations.replies import sse
from conversations.replies.message_json import message_json

RETRY_MS = 1000

_FINAL_EVENTS = {
    "complete": "message.completed",
    "incomplete": "message.incomplete",
    "failed": "message.failed",
    "cancelled": "message.cancelled",
    "deleted": "message.failed",
}


class ReplyEvents:
    """Events of one reply as bytes, encoded once for all readers at the same position."""

    def __init__(self) -> None:
        self._span = (-1, -1)
        self._delta = self._ending = b""

    def delta(self, text: str, position: int) -> bytes:
        """Return the event that brings `text` to readers at `position`."""
        span = (position, position + len(text))
        if span != self._span:
            self._span, self._delta = span, sse.event("content.delta", {"delta": text}, span[1])
        return self._delta

    def ending(self, message: Message | None) -> bytes:
        """Return the last event: `reconnect` if there is no final message."""
        if not self._ending:
            self._ending = reconnect() if message is None else _final(message)
        return self._ending


def created(
    chat_id: UUID, user_message_id: UUID | None, message_id: UUID, variant: str, context: dict[str, Any]
) -> bytes:
    data = {
        "chat_id": str(chat_id),
        "user_message_id": None if user_message_id is None else str(user_message_id),
        "message_id": str(message_id),
        "model_variant": variant,
        "context": {
            "tokens": context.get("tokens", 0),
            "budget": context.get("budget", 0),
            "sections": [{"kind": s["kind"], "tokens": s["tokens"]} for s in context.get("sections", [])],
        },
    }
    return sse.event("message.created", data)


def _final(message: Message) -> bytes:
    """Return the final event. If a crash lost text that a client already had, its `content` is authoritative."""
    data: dict[str, Any] = {"message": message_json(message)}
    if message.status != "complete":
        data["error"] = message.error or {
            "code": message.status,
            "message": f"The reply was {message.status}.",
        }
    return sse.event(_FINAL_EVENTS[message.status], data, len(message.content))


def reconnect() -> bytes:
    return sse.event("reconnect", {"retry_ms": RETRY_MS})
