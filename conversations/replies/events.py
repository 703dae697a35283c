"""A reply as its readers see it: server-sent events (`text/event-stream`) as bytes, and messages as JSON.

Every `data` is one line of compact JSON. Line separators of Unicode are escaped, because some readers split lines at
them although the standard does not.
"""

from json import JSONEncoder
from typing import Any

from chatmemory.errors import Unavailable
from chatmemory.llm.attachments import attachments_in
from conversations.models import STREAMING, ActiveReply, Message, Role
from conversations.replies.reply import ReplyHead

KEEP_ALIVE_SECONDS = 15.0
"""Silence after which a stream sends `KEEP_ALIVE`, so that no proxy closes it."""
KEEP_ALIVE = b": keep-alive\n\n"
"""A comment, which readers ignore."""

_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False).encode
_SEPARATORS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}

_ENDED = {"complete": "completed", "deleted": "failed"}
"""Statuses whose final event has another name."""
_TOOL_CALL = {"call_id": "id", "name": "name", "arguments": "arguments", "custom": "custom"}
"""What a call of a tool shows of its payload, and under which names; its output has the first two."""
_UNSTORED = ("role", "content", "status", "model_variant", "model", "usage", "error")
"""What a message shows of a reply that is not stored."""


def event(name: str, data: dict[str, Any], id: int | None = None) -> bytes:  # noqa: A002 (the wire's own word)
    """Return one event, ready to send; without an `id:` line if `id` is None.

    `name` is one of our constants and is not checked. `data` must be JSON values: raises `TypeError` for others and
    `ValueError` for a NaN. A lone surrogate becomes U+FFFD.
    """
    line = "" if id is None else f"id: {id}\n"
    return f"event: {name}\n{line}data: ".encode() + json_line(data) + b"\n\n"


def unnamed(data: dict[str, Any]) -> bytes:
    """Return an event without a name, as in Chat Completions streams; `data` as above."""
    return b"data: " + json_line(data) + b"\n\n"


def json_line(value: object) -> bytes:
    """Return a value as JSON on one line."""
    text = _encode(value)
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        text = text.translate(_SEPARATORS)
    return text.encode()


def created(head: ReplyHead) -> bytes:
    sent = head.snapshot
    data = {
        "chat_id": str(head.chat.id),
        "user_message_id": _id(head.user_message_id),
        "message_id": str(head.message_id),
        "model_variant": head.variant,
        "context": {
            "tokens": sent.tokens if sent else 0,
            "budget": sent.plan.budget if sent else 0,
            "sections": [{"kind": one.kind, "tokens": one.tokens} for one in sent.sections] if sent else [],
        },
    }
    return event("message.created", data)


def final(message: Message) -> bytes:
    """Return the final event. If a crash lost text that a client already had, its `content` is authoritative."""
    data: dict[str, Any] = {"message": message_json(message)}
    if message.status != "complete":
        unknown = {"code": message.status, "message": f"The reply was {message.status}."}
        data["error"] = message.error or unknown
    name = _ENDED.get(message.status, message.status)
    return event(f"message.{name}", data, None if message.chat_id is None else len(message.content))


def reconnect(error: Exception | None = None) -> bytes:
    """Return the event that sends readers away, to resume the stream: with `error` if the reply cannot be stored."""
    if not isinstance(error, Unavailable):
        return event("reconnect", {"retry_ms": 1000})
    told = {"code": error.code, "message": error.message}
    return event("reconnect", {"retry_ms": 1000 * (error.retry_after or 1), "error": told})


# Messages as JSON


def iso(moment: Any) -> str | None:
    """Format a time as ISO 8601 in UTC, as DRF does."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def message_json(message: Message) -> dict[str, Any]:
    """Return a message as the API shows it; of a reply that is not stored, only what it has."""
    shown = {
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
    }
    payload = message.payload or {}
    if "call_id" in payload:
        shown["tool_call"] = {name: payload[key] for key, name in _TOOL_CALL.items() if key in payload}
    if attached := attachments_in(payload):
        shown["attachments"] = [one.to_json() for one in attached]
    return shown if message.chat_id else {name: shown[name] for name in _UNSTORED}


def streaming_json(active: ActiveReply, last_seq: int) -> dict[str, Any]:
    """Return a reply being written as a message with status `streaming` and the text of its last checkpoint."""
    return message_json(
        Message(
            id=active.message_id,
            chat_id=active.chat_id,
            seq=last_seq + 1,
            role=Role.ASSISTANT.value,
            content=active.text,
            status=STREAMING,
            model_variant=active.model_variant,
            model=active.model,
            reply_to_id=active.user_message_id,
            created_at=active.started_at,
            metadata=active.metadata,
        )
    )


def _id(value: Any) -> str | None:
    return None if value is None else str(value)
