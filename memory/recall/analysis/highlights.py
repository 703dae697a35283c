"""Find where a text contains the words that were searched, as ranges of characters. Pure.

Words are compared by their terms (`memory.recall.analysis.terms`), so that matches by stem are highlighted, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set

from memory.recall.analysis.terms import UNSPACED, terms

_PIECE = re.compile(rf"[{UNSPACED}]+|[^\s{UNSPACED}]+")
_LETTERS = re.compile(r"[\w%°].*[\w%°]|[\w%°]", re.DOTALL)
_UNSPACED = re.compile(f"[{UNSPACED}]")


def highlights(text: str, wanted: Set[str]) -> list[tuple[int, int]]:
    """Return the ranges of `text` whose terms are among `wanted`, in order, not touching each other."""
    return _joined(_found(text, wanted))


def _found(text: str, wanted: Set[str]) -> Iterator[tuple[int, int]]:
    for piece in _PIECE.finditer(text):
        if _UNSPACED.match(piece[0]):
            yield from _pairs(piece[0], piece.start(), wanted)
        elif (core := _LETTERS.search(piece[0])) and not wanted.isdisjoint(terms(core[0])):
            yield piece.start() + core.start(), piece.start() + core.end()


def _pairs(run: str, at: int, wanted: Set[str]) -> Iterator[tuple[int, int]]:
    width = min(2, len(run))
    for start in range(len(run) - width + 1):
        if not wanted.isdisjoint(terms(run[start : start + width])):
            yield at + start, at + start + width


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in ranges:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
