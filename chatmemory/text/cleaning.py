"""Cleans text: no NULs or lone surrogates in stored text, even if split between deltas.

For memory, `without_invisible` removes invisible characters, too. PostgreSQL text cannot contain NULs, UTF-8 cannot
contain lone surrogates, and JSON escapes can contain both. A surrogate pair may arrive in two deltas, so its first
half is held back until the next delta shows whether the second follows.
"""

from __future__ import annotations

import re

REPLACEMENT = "\ufffd"

_JOINERS = "\\u200c\\u200d\\ufe00-\\ufe0f\\U000e0100-\\U000e01ef"
# Controls, soft hyphen, letters that are blank, zero-width space, bidi marks and embeddings, word joiner and similar
# characters, BOM, tags, surrogates. Joiners and variation selectors stay, because emoji and several scripts need
# them, but no more of them in a row than that takes: more could encode a hidden text.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
    f"|(?<=[{_JOINERS}][{_JOINERS}])[{_JOINERS}]+"
)


def clean(text: str) -> str:
    """Remove NULs, then join surrogate pairs, then replace every lone surrogate by U+FFFD."""
    text = text.replace("\0", "")
    if _is_encodable(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def without_invisible(text: str) -> str:
    """`text` without invisible characters: controls, direction marks, tags, lone surrogates."""
    return _INVISIBLE.sub("", text)


def clip_bytes(text: str, limit: int) -> str:
    """The longest prefix of clean `text` that takes at most `limit` bytes of UTF-8."""
    if len(text) * 4 <= limit:
        return text
    return text.encode()[: max(limit, 0)].decode(errors="ignore")


class TextCleaner:
    """Cleans a text that arrives in deltas: the results of `feed` and the last `flush` join to `clean` of the whole."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, delta: str) -> str:
        """Return the text that is final by now; empty if the delta had only NULs or half a pair."""
        text = (self._held + delta).replace("\0", "")
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return clean(text)

    def flush(self) -> str:
        """Return what is kept back: U+FFFD for half a pair; otherwise an empty string."""
        held, self._held = self._held, ""
        return clean(held)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
