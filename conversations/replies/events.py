"""A reply as its readers see it: server-sent events (`text/event-stream`) as bytes.

Every `data` is one line of compact JSON. Line separators of Unicode are escaped, because some readers split lines at
them although the standard does not.
"""

from json import JSONEncoder
from typing import Any

from chatmemory.errors import Unavailable
from conversations.models import Message
from conversations.replies.serializers import message_json

KEEP_ALIVE_SECONDS = 15.0
"""Silence after which a stream sends `KEEP_ALIVE`, so that no proxy closes it."""
KEEP_ALIVE = b": keep-alive\n\n"
"""A comment, which readers ignore."""

_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False).encode
_SEPARATORS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}

_ENDED = {"complete": "completed", "deleted": "failed"}
"""Statuses whose final event has another name."""


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
