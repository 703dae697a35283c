"""A reply as its readers see it: the events of the API as bytes, and messages as JSON."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from chatmemory.llm.attachments import attachments_in
from chatmemory.llm.protocol import Usage
from conversations.models import STREAMING, ActiveReply, Message, Role
from conversations.replies import sse
from conversations.replies.reply import ReplyHead

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
        if message is None:  # another reader may see the final message
            return reconnect()
        self._ending = self._ending or final(message)
        return self._ending


def created(head: ReplyHead) -> bytes:
    sent = head.snapshot
    data = {
        "chat_id": str(head.chat_id),
        "user_message_id": _id(head.user_message_id),
        "message_id": str(head.message_id),
        "model_variant": head.variant,
        "context": {
            "tokens": sent.tokens if sent else 0,
            "budget": sent.plan.budget if sent else 0,
            "sections": [{"kind": one.kind, "tokens": one.tokens} for one in sent.sections] if sent else [],
        },
    }
    return sse.event("message.created", data)


def final(message: Message) -> bytes:
    """Return the final event. If a crash lost text that a client already had, its `content` is authoritative."""
    data: dict[str, Any] = {"message": message_json(message)}
    if message.status != "complete":
        data["error"] = message.error or {
            "code": message.status,
            "message": f"The reply was {message.status}.",
        }
    return sse.event(_FINAL_EVENTS[message.status], data, len(message.content))


def unstored_final(message: Message) -> bytes:
    error = {"error": message.error} if message.error else {}
    return sse.event(_FINAL_EVENTS[message.status], {"message": unstored_json(message), **error})


def reconnect() -> bytes:
    return sse.event("reconnect", {"retry_ms": RETRY_MS})


# Messages as JSON


def iso(moment: Any) -> str | None:
    """Format a time as ISO 8601 in UTC, as DRF does."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def message_json(message: Message) -> dict[str, Any]:
    """Return a final message as the API shows it."""
    return {
        "id": str(message.pk),
        "chat_id": str(message.chat_id),
        "seq": message.seq,
        "role": message.role,
        "content": message.content,
        "status": message.status,
        "model_variant": message.model_variant or None,
        "model": message.model or None,
        "token_count": message.token_count,
        "reply_to": _id(message.reply_to_id),
        "superseded_by": _id(message.superseded_by_id),
        "is_first": message.seq == 1,
        "created_at": iso(message.created_at),
        "completed_at": iso(message.completed_at),
        "edited_at": iso(message.edited_at),
        "usage": message.usage,
        "error": message.error,
        "metadata": message.metadata,
        **_tool_call(message),
        **_attachments(message),
    }


def unstored_json(message: Message) -> dict[str, Any]:
    """Return a reply that is not stored, so it has no id."""
    whole = message_json(message)
    return {
        name: whole[name]
        for name in ("role", "content", "status", "model_variant", "model", "usage", "error")
    }


def streaming_json(active: ActiveReply, last_seq: int) -> dict[str, Any]:
    """Return a reply being written as a message with status `streaming` and the text of its last checkpoint."""
    return {
        "id": str(active.message_id),
        "chat_id": str(active.chat_id),
        "seq": last_seq + 1,
        "role": Role.ASSISTANT.value,
        "content": active.text,
        "status": STREAMING,
        "model_variant": active.model_variant,
        "model": active.model,
        "token_count": 0,
        "reply_to": _id(active.user_message_id),
        "superseded_by": None,
        "is_first": False,
        "created_at": iso(active.started_at),
        "completed_at": None,
        "edited_at": None,
        "usage": None,
        "error": None,
        "metadata": active.metadata,
    }


def _tool_call(message: Message) -> dict[str, Any]:
    """Return the id, name and arguments of a call, the id and name of an output's call; nothing for other messages."""
    payload = message.payload or {}
    call = {name: payload[key] for name, key in _CALL.items() if key in payload}
    return {"tool_call": call} if "id" in call else {}


_CALL = {"id": "call_id", "name": "name", "arguments": "arguments", "custom": "custom"}


def _attachments(message: Message) -> dict[str, Any]:
    found = [one.to_json() for one in attachments_in(message.payload)]
    return {"attachments": found} if found else {}


def _id(value: Any) -> str | None:
    return None if value is None else str(value)


def usage_json(usage: Usage | None, cost_usd: Decimal | None) -> dict[str, Any] | None:
    """Return tokens and USD as the API shows them, or None if the upstream reported none."""
    if usage is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": None if cost_usd is None else float(cost_usd.quantize(Decimal("1E-9"))),
    }
