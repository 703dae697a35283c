"""The difference between two texts, word by word, whatever the texts are and however the result is shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

MOST_WORDS = 5_000
"""Texts with more words are not compared: one replaces the other."""

MOST_PAIRS = 250_000
"""Words times words that are compared in full. In longer texts, words that make up more than a hundredth only count
beside others that match (`autojunk`): at most a second for any texts, where a full comparison takes minutes.
"""

_WORD = re.compile(r"\n\s*|\s+|(?:\w+|[^\w\s])[^\S\n]*")
"""Matches a word with the space after it: as words of their own, spaces would be most of what two texts have in
common. Line breaks are separate, so that an added line does not change the line before it.
"""


class DiffPiece(NamedTuple):
    """A run of text that is in both texts, only in the older (`del`), or only in the newer (`ins`)."""

    kind: Literal["same", "del", "ins"]
    text: str


def word_diff(older: str, newer: str) -> list[DiffPiece]:
    """The pieces of both texts in order: those not `ins` join to `older`, those not `del` to `newer`."""
    before, after = _WORD.findall(older), _WORD.findall(newer)
    if max(len(before), len(after)) > MOST_WORDS:
        return _joined(list(_pieces(older, newer, same=older == newer)))
    is_long = len(before) * len(after) > MOST_PAIRS
    pieces: list[DiffPiece] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=is_long).get_opcodes():
        pieces += _pieces("".join(before[i1:i2]), "".join(after[j1:j2]), same=tag == "equal")
    return _joined(pieces)


def replaced(older: str, newer: str) -> list[DiffPiece]:
    """The pieces of two unrelated texts."""
    return _joined([DiffPiece("del", older), DiffPiece("ins", newer)])


def _pieces(older: str, newer: str, *, same: bool) -> Iterator[DiffPiece]:
    """The pieces of a stretch. White space at the end of both sides counts as the same."""
    if same:
        yield DiffPiece("same", older)
        return
    kept = _common_space(older, newer)
    cut = -len(kept) or None
    yield DiffPiece("del", older[:cut])
    yield DiffPiece("ins", newer[:cut])
    yield DiffPiece("same", kept)


def _common_space(older: str, newer: str) -> str:
    spaces = older[len(older.rstrip()) :], newer[len(newer.rstrip()) :]
    shorter = min(spaces, key=len)
    return shorter if all(space.endswith(shorter) for space in spaces) else ""


def _joined(pieces: Sequence[DiffPiece]) -> list[DiffPiece]:
    """`pieces` without empty ones, and with neighbours of one kind joined."""
    joined: list[DiffPiece] = []
    for piece in filter(lambda one: one.text, pieces):
        if joined and joined[-1].kind == piece.kind:
            joined[-1] = DiffPiece(piece.kind, joined[-1].text + piece.text)
        else:
            joined.append(piece)
    return joined
