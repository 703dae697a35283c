"""The difference between two texts, word by word. Pure."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal, NamedTuple

MAX_WORDS = 5_000
"""Texts with more words are not compared: one replaces the other."""
MAX_PAIRS = 250_000
"""Words times words that are compared in full. In longer texts, words that make up more than a hundredth only count
beside others that match (`autojunk`): at most a second for any texts, where a full comparison takes minutes.
"""

_WORD = re.compile(r"\n\s*|\s+|(?:\w+|[^\w\s])[^\S\n]*")
"""Matches a word with the space after it: as words of their own, spaces would be most of what two texts have in
common. Line breaks are separate, so that an added line does not change the line before it.
"""


Op = Literal["equal", "delete", "insert"]


class DiffPiece(NamedTuple):
    """A run of text that is in both texts, only in the older (`delete`), or only in the newer (`insert`)."""

    op: Op
    text: str


def word_diff(older: str, newer: str) -> list[DiffPiece]:
    """The pieces of both texts in order: those not inserted join to `older`, those not deleted to `newer`."""
    before, after = _WORD.findall(older), _WORD.findall(newer)
    if max(len(before), len(after)) > MAX_WORDS:
        before, after = [older], [newer]
    is_long = len(before) * len(after) > MAX_PAIRS
    pieces: list[DiffPiece] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=is_long).get_opcodes():
        old, new = "".join(before[i1:i2]), "".join(after[j1:j2])
        if tag == "equal":
            pieces.append(DiffPiece("equal", old))
        else:
            pieces += DiffPiece("delete", old), DiffPiece("insert", new)
    return _joined(pieces)


def replaced(older: str, newer: str) -> list[DiffPiece]:
    """The pieces of two unrelated texts."""
    return _joined([DiffPiece("delete", older), DiffPiece("insert", newer)])


def _joined(pieces: Iterable[DiffPiece]) -> list[DiffPiece]:
    """`pieces` without empty ones, and with neighbours of one kind joined."""
    runs = groupby((piece for piece in pieces if piece.text), key=lambda piece: piece.op)
    return [DiffPiece(op, "".join(piece.text for piece in run)) for op, run in runs]
