"""What changed between two texts, word by word. Pure; knows neither what the texts are nor how a change is shown."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

MOST_WORDS = 4000
"""Longer texts are not compared: the time grows with the square of their length."""

_WORD = re.compile(r"\s+|\w+|[^\w\s]")


class Piece(NamedTuple):
    """A run of text that is in both, only in the older (`del`), or only in the newer (`ins`)."""

    kind: Literal["same", "del", "ins"]
    text: str


def word_diff(older: str, newer: str) -> list[Piece]:
    """The pieces of both texts in order: those not `ins` join to `older`, those not `del` to `newer`."""
    before, after = _WORD.findall(older), _WORD.findall(newer)
    if max(len(before), len(after)) > MOST_WORDS:
        return _pieces(older, newer, same=older == newer)
    pieces: list[Piece] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        pieces += _pieces("".join(before[i1:i2]), "".join(after[j1:j2]), same=tag == "equal")
    return pieces


def _pieces(older: str, newer: str, *, same: bool) -> list[Piece]:
    if same:
        return [Piece("same", older)] if older else []
    return [piece for piece in (Piece("del", older), Piece("ins", newer)) if piece.text]
