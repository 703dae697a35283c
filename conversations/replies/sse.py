"""Encode server-sent events as `text/event-stream` bytes: values in, wire text out.

Only the format, and after what silence a comment is sent. Which events there are is in `conversations.replies.events`.
Every `data` is one line of compact JSON. Line separators of Unicode are escaped, because some readers split lines at
them although the standard does not.
"""

from collections.abc import Mapping
from json import JSONEncoder

KEEP_ALIVE_SECONDS = 15.0
"""Silence after which a stream sends a comment, so that no proxy closes it."""

_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False).encode
_SEPARATORS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def event(name: str, data: Mapping[str, object], id: int | None = None) -> bytes:  # noqa: A002 (the wire's own word)
    """Return one event, ready to send; without an `id:` line if `id` is None.

    `name` is one of our constants and is not checked. `data` must be JSON values: raises `TypeError` for others and
    `ValueError` for a NaN. A lone surrogate becomes U+FFFD.
    """
    line = "" if id is None else f"id: {id}\n"
    return f"event: {name}\n{line}data: {_one_line(dict(data))}\n\n".encode()


def data(body: Mapping[str, object]) -> bytes:
    """Return an event without a name, as in Chat Completions streams; `body` as above."""
    return f"data: {_one_line(dict(body))}\n\n".encode()


def json_text(text: str) -> bytes:
    """Return a string as JSON, escaped as in an event."""
    encoded = _encode(text)
    return (encoded if encoded.isascii() else _safe(encoded)).encode()


def comment() -> bytes:
    """Return a line that readers ignore; it keeps a silent connection open."""
    return b": keep-alive\n\n"


def _one_line(data: dict[str, object]) -> str:
    text = _encode(data)
    return text if text.isascii() else _safe(text)


def _safe(text: str) -> str:
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.translate(_SEPARATORS)
