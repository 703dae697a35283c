"""Whether a text contains a piece of evidence. Pure.

Both are compared without case, runs of white space and the `> ` with which memory quotes lines that look like its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONG = 400
"""Characters above which a part of a message is enough, if a set says so."""
PART = 120
"""Consecutive characters that are enough of a long message."""

_QUOTE = re.compile(r"^(?:\s*>)+[ \t]?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of evidence that a question needs: a text that must be present, in any of its `forms`."""

    forms: tuple[str, ...]
    part: int = 0
    """Consecutive characters that are enough of a form longer than `LONG`; 0 if all of it must be present."""
    is_value: bool = False
    """A form counts only if no letter or digit continues it."""


class Haystack:
    """A text in which evidence is looked for."""

    def __init__(self, text: str) -> None:
        self.text = normalized(text)

    def has(self, piece: Piece) -> bool:
        """True if any form of `piece` is in the text."""
        return any(self._has(normalized(form), piece) for form in piece.forms)

    def _has(self, form: str, piece: Piece) -> bool:
        if piece.is_value:
            return any(self._is_apart(at, at + len(form)) for at in _places(form, self.text))
        if piece.part and len(form) > LONG:
            return has_part(form, self.text, piece.part)
        return bool(form) and form in self.text

    def _is_apart(self, start: int, end: int) -> bool:
        around = self.text[max(0, start - 1) : start], self.text[end : end + 1]
        return not any(one.isascii() and one.isalnum() for one in around)


def normalized(text: str) -> str:
    """Return `text` in the form in which it is compared."""
    return " ".join(_QUOTE.sub("", text).split()).lower()


def has_part(form: str, text: str, size: int) -> bool:
    """True if any `size` consecutive characters of `form` are in `text`."""
    block = size // 2
    # Any `size` consecutive characters contain one whole block that starts at a multiple of half of `size`.
    for start in range(0, len(form) - block + 1, block):
        piece = form[start : start + block]
        for at in _places(piece, text):
            before = _common(reversed(form[:start]), reversed(text[max(0, at - size) : at]))
            after = _common(form[start + block :], text[at + block : at + block + size])
            if before + block + after >= size:
                return True
    return False


def _places(piece: str, text: str) -> Iterator[int]:
    at = text.find(piece) if piece else -1
    while at >= 0:
        yield at
        at = text.find(piece, at + 1)


def _common(one: Iterator[str] | str, other: Iterator[str] | str) -> int:
    number = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        number += 1
    return number
