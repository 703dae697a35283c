"""Analyse text into the terms by which it can be found, and divide it into passages. Pure.

A term is a word without case, accents and ending; a number, id, date, path or address as a whole, and its parts; two
neighbouring characters of a script without spaces. Texts and questions are analysed alike.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from memory.recall.analysis.dates import date_terms
from memory.recall.analysis.stemming import STOP_WORDS, stem

PASSAGE_CHARS = 400
"""About 100 tokens of a language with spaces."""
DENSE_PASSAGE_CHARS = 160
"""About 100 tokens of a language without spaces."""
LONGEST_TERM = 64
"""Longer words (encoded data) are cut to this many characters."""

_MARKS = "\u0900-\u0963\u0966-\u0dff"
"""Vowel signs of Indian scripts: parts of words, although Python does not class them as word characters."""
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Scripts that are searched by pairs of characters: Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean."""

_WORD = re.compile(rf"[\w{_MARKS}](?:[\w{_MARKS}.,:/\\@+'’&=~#%-]*[\w{_MARKS}])?[%°]?")
_PART = re.compile(rf"[^\W_]+[{_MARKS}\w]*?(?=_|[^\w{_MARKS}]|$)|[{_MARKS}]+")
_UNSPACED_RUN = re.compile(rf"[{UNSPACED}]+")
_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0640]+")
_SUFFIX = re.compile(r"['’](?:s|t|re|ve|m|ll|d)\b")
_GROUPING = re.compile(r"(?<=\d)[,'’](?=\d{3}(?!\d))")
_BETWEEN = re.compile(r"[/\\]+")
_AMOUNT = re.compile(r"\d+(?:[.,]\d+)*%?")
_STOP = re.compile(r"(?<=[.!?…])[\"'”’)\]]?\s+|(?<=[。！？])|\n+")


def terms(text: str) -> list[str]:
    """Return the terms of `text` in order, with repetitions."""
    folded = fold(text)
    return [*_in_order(folded), *date_terms(folded)]


def passages(text: str) -> list[tuple[int, int]]:
    """Divide `text` into pieces of about 100 tokens, as spans of characters without gaps; [] if it is empty."""
    if not text:
        return []
    dense = _UNSPACED_RUN.search(text) is not None and _is_dense(text)
    size = DENSE_PASSAGE_CHARS if dense else PASSAGE_CHARS
    if len(text) <= size * 3 // 2:
        return [(0, len(text))]
    spans: list[tuple[int, int]] = []
    start = 0
    while len(text) - start > size * 3 // 2:
        end = _cut(text, start, size)
        spans.append((start, end))
        start = end
    return [*spans, (start, len(text))]


def fold(text: str) -> str:
    """Return `text` without case, accents, possessives, thousands separators and differences of width."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_LOWER_EXCEPTIONS)).casefold()
        if not text.isascii():
            stripped = _ACCENTS.sub("", unicodedata.normalize("NFD", text))
            text = unicodedata.normalize("NFC", stripped)
    else:
        text = text.lower()
    return _GROUPING.sub("", _SUFFIX.sub("", text))


_LOWER_EXCEPTIONS = str.maketrans({"İ": "i", "ı": "i", "ё": "е", "Ё": "Е"})
"""Letters that `casefold` and the removal of accents would leave in two forms."""


def _is_dense(text: str) -> bool:
    sample = text[:1000]
    return sum(map(len, _UNSPACED_RUN.findall(sample))) * 3 > len(sample)


def _cut(text: str, start: int, size: int) -> int:
    """The end of a passage that begins at `start`: after a sentence or a line, else after a word, else anywhere."""
    low, high = start + size * 2 // 3, start + size * 4 // 3
    best = 0
    for stop in _STOP.finditer(text, low, high):
        if not best or abs(stop.end() - start - size) < abs(best - start - size):
            best = stop.end()
    if best:
        return best
    space = text.rfind(" ", low, high)
    return space + 1 if space > 0 else start + size


def _in_order(folded: str) -> Iterator[str]:
    for word in _WORD.findall(folded):
        if word.isalpha() and word.isascii():
            if term := _plain(word):
                yield term
        elif not word.isascii() and _UNSPACED_RUN.search(word):
            yield from _unspaced(word)
        else:
            yield from _compound(word)


@lru_cache(maxsize=20_000)
def _plain(word: str) -> str:
    """The term of a word of unaccented letters; "" for a stop word."""
    return "" if len(word) == 1 or word in STOP_WORDS else stem(word)[:LONGEST_TERM]


def _compound(word: str) -> Iterator[str]:
    """Yield the terms of a word that contains other characters than letters: as a whole, and its parts."""
    parts = _PART.findall(word)
    if len(parts) > 1 or not parts:
        yield word[:LONGEST_TERM]
        if _AMOUNT.fullmatch(word):
            return
        if "/" in word or "\\" in word:
            yield from (
                piece[:LONGEST_TERM] for piece in _BETWEEN.split(word) if not piece.isalnum() and piece
            )
    for part in parts:
        if len(part) > 1 or part.isdigit():
            if part.isalpha() or not part.isalnum():
                part = "" if part in STOP_WORDS else stem(part)
            if part:
                yield part[:LONGEST_TERM]


def _unspaced(word: str) -> Iterator[str]:
    """Yield pairs of characters of each run without spaces, or its only character; the rest of the word as words."""
    at = 0
    for run in _UNSPACED_RUN.finditer(word):
        yield from _in_order(word[at : run.start()])
        said = run[0]
        if len(said) == 1:
            yield said
        yield from (said[i : i + 2] for i in range(len(said) - 1))
        at = run.end()
    yield from _in_order(word[at:])
