"""Salient spans: what a text must not lose, and whether a summary kept it.

Pure and cheap. It does not judge the meaning of a text, and asks no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from chatmemory.text.spans import CJK, CUTS, LONGEST_WORD, POSSESSIVE, scan

LIST_CAP = 200
"""Maximum number of spans that `retained` lists on each side; its share counts them all."""

LONGEST_KEY = 8
"""Maximum number of a span's words that are compared."""

_KEY = re.compile(r"\w+(?:[.,:/@+'’-]\w+)*")
_PART = re.compile(r"[^\W_]+")
_GROUPING = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


@dataclass(frozen=True, slots=True)
class Retained:
    """Which salient spans of a source are still in its summary. Both lists have at most `LIST_CAP`."""

    kept: list[str]
    lost: list[str]
    share: float
    """Kept spans divided by all spans, 0 to 1; 1.0 if the source has none."""
    through_seq: int | None = None
    """The last message that was examined, if time ran out before the later ones."""


def spans(text: str) -> list[str]:
    """The salient spans of `text` in order of appearance, distinct ignoring case."""
    return [span for span, _ in scan(text)]


def retained(source: str, summary: str) -> Retained:
    """Which salient spans of `source` are in `summary`: as whole words, in sequence, ignoring case."""
    wanted = [(span, _key(span)) for span in spans(source)]
    have = _index(summary, {len(key) for _, key in wanted})
    kept = [span for span, key in wanted if key in have]
    lost = [span for span, key in wanted if key not in have]
    return Retained(kept[:LIST_CAP], lost[:LIST_CAP], len(kept) / len(wanted) if wanted else 1.0)


class SpanIndex:
    """The words of a text, indexed to look up many spans: as whole words, in sequence, ignoring case.

    `sought`: the only spans that will be looked up, if they are known.
    """

    def __init__(self, text: str, sought: Iterable[str] | None = None) -> None:
        lengths = set(range(LONGEST_KEY + 1)) if sought is None else {len(_key(span)) for span in sought}
        self._have = _index(text, lengths)

    def __contains__(self, span: str) -> bool:
        return _key(span) in self._have


def _key(span: str) -> tuple[str, ...]:
    return _words(span)[:LONGEST_KEY]


def _words(text: str) -> tuple[str, ...]:
    """The words of a text in normalized form: without case, possessives and thousands separators."""
    plain = POSSESSIVE.sub("", _GROUPING.sub("", CJK.sub(" ", text.casefold())))
    words: list[str] = []
    for word in _KEY.findall(plain):
        words += [word] if len(word) <= LONGEST_WORD else CUTS.split(word)
    return tuple(words)


def _index(text: str, lengths: set[int]) -> set[tuple[str, ...]]:
    """All runs of words of the given lengths in `text`, and the parts of words that have letters."""
    words = _words(text)
    runs = {words[at : at + length] for length in lengths for at in range(len(words) - length + 1)}
    # "HAT062/HAT039" contains both ids, but "2024-05-12" contains no 12.
    parts = (_PART.findall(word) for word in words if not word.isalnum())
    return runs | {(part,) for found in parts for part in found if not part.isdigit()}
