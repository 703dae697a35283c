"""The difference between two texts, word by word. Pure; knows neither what the texts are nor how the result is shown.

Words that occur once in each text, in the same order, anchor the comparison; a stretch between two anchors is
compared in full if it is short, and otherwise counts as replaced. So the time is linear for any texts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

MOST_WORDS = 10_000
"""Texts with more words are not compared: one replaces the other."""

MOST_PAIRS = 250_000
"""The largest stretch that is compared in full: words times words. The time grows faster than that product."""

_WORD = re.compile(r"\n\s*|\s+|(?:\w+|[^\w\s])[^\S\n]*")
"""Matches a word with the space after it: as words of their own, spaces would be most of what two texts have in
common. Line breaks are separate, so that an added line does not change the line before it.
"""


class DiffPiece(NamedTuple):
    """A run of text that is in both texts, only in the older (`del`), or only in the newer (`ins`)."""

    kind: Literal["same", "del", "ins"]
    text: str


class _Stretch(NamedTuple):
    """Two runs of words: from and to in the older text, from and to in the newer."""

    i1: int
    i2: int
    j1: int
    j2: int


def word_diff(older: str, newer: str) -> list[DiffPiece]:
    """The pieces of both texts in order: those not `ins` join to `older`, those not `del` to `newer`."""
    before, after = _WORD.findall(older), _WORD.findall(newer)
    if max(len(before), len(after)) > MOST_WORDS:
        return _joined(list(_pieces(older, newer, same=older == newer)))
    pieces: list[DiffPiece] = []
    for stretch, same in _compared(before, after):
        i1, i2, j1, j2 = stretch
        pieces += _pieces("".join(before[i1:i2]), "".join(after[j1:j2]), same=same)
    return _joined(pieces)


def replaced(older: str, newer: str) -> list[DiffPiece]:
    """The pieces of two unrelated texts."""
    return _joined([DiffPiece("del", older), DiffPiece("ins", newer)])


def _compared(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[_Stretch, bool]]:
    """Yield stretches that cover both texts in order, and whether each is the same in both."""
    if len(before) * len(after) <= MOST_PAIRS:
        yield from _in_full(before, after, _Stretch(0, len(before), 0, len(after)))
        return
    head, tail = _alike(before, after)
    yield _Stretch(0, head, 0, head), True
    i = j = head
    ends = len(before) - tail, len(after) - tail
    for at, to in [*_anchors(before[head : ends[0]], after[head : ends[1]], head), ends]:
        yield from _in_full(before, after, _Stretch(i, at, j, to))
        i, j = at, to
    yield _Stretch(i, len(before), j, len(after)), True


def _alike(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many words both texts begin with, and how many more they end with."""
    most = min(len(before), len(after))
    head = next((at for at in range(most) if before[at] != after[at]), most)
    rest = range(1, most - head + 1)
    return head, next((at - 1 for at in rest if before[-at] != after[-at]), most - head)


def _in_full(
    before: Sequence[str], after: Sequence[str], stretch: _Stretch
) -> Iterator[tuple[_Stretch, bool]]:
    """Compare one stretch word by word, if it is short enough."""
    i1, i2, j1, j2 = stretch
    if (i2 - i1) * (j2 - j1) > MOST_PAIRS:
        yield stretch, False
        return
    for tag, a1, a2, b1, b2 in SequenceMatcher(
        None, before[i1:i2], after[j1:j2], autojunk=False
    ).get_opcodes():
        yield _Stretch(i1 + a1, i1 + a2, j1 + b1, j1 + b2), tag == "equal"


def _anchors(before: Sequence[str], after: Sequence[str], offset: int) -> list[tuple[int, int]]:
    """The positions of words that occur once in each text: the longest series with the same order in both.

    Positions are counted from `offset`.
    """
    once = _once(before) & _once(after)
    places = {word: j for j, word in enumerate(after, offset) if word in once}
    pairs = [(i, places[word]) for i, word in enumerate(before, offset) if word in once]
    # The longest series of pairs that rises on both sides, by patience sorting.
    ends: list[int] = []
    last: list[int] = []
    previous: list[int] = []
    for number, (_, j) in enumerate(pairs):
        at = bisect_left(ends, j)
        previous.append(last[at - 1] if at else -1)
        ends[at : at + 1], last[at : at + 1] = [j], [number]
    chosen: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = previous[number]
    return chosen[::-1]


def _once(words: Sequence[str]) -> set[str]:
    return {word for word, count in Counter(words).items() if count == 1}


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
