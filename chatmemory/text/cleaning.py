"""Text of a model made fit to store: no NUL and no lone surrogate, however it was cut into deltas.

PostgreSQL text cannot hold NULs, UTF-8 cannot hold lone surrogates, and JSON escapes can carry both. A surrogate pair
may arrive in two deltas, so its first half is held back until the next delta shows whether the second follows.
"""

from __future__ import annotations

REPLACEMENT = "\ufffd"


def clean(text: str) -> str:
    """Remove NULs, then join surrogate pairs, then replace every lone surrogate by U+FFFD."""
    text = text.replace("\0", "")
    if _is_encodable(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clip_bytes(text: str, limit: int) -> str:
    """The longest start of clean `text` that takes at most `limit` bytes of UTF-8."""
    if len(text) * 4 <= limit:
        return text
    return text.encode()[: max(limit, 0)].decode(errors="ignore")


class TextCleaner:
    """Cleans a text that comes in deltas: what `feed` and the last `flush` give is `clean` of the whole."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, delta: str) -> str:
        """What is certain by now; empty when the delta was only NULs or half a pair."""
        text = (self._held + delta).replace("\0", "")
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return clean(text)

    def flush(self) -> str:
        """What was held back: a half pair whose other half never came."""
        held, self._held = self._held, ""
        return clean(held)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
