"""A question → what to look for: its terms with their weights, which of them stand side by side, its form, and of what
time it asks.

Pure. Words that lean a question one way or the other are known in a few languages; where none is, nothing leans.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from memory.recall.analysis.dates import Time, times
from memory.recall.analysis.terms import fold, hashed, terms
from memory.recall.question_forms import NO_FORM, Form, form_of

MOST_TERMS = 12
"""Terms that are looked up. A longer question has them at its beginning, its end, and where it is most specific."""
HEAD_CHARS, TAIL_CHARS = 2000, 1000
"""What is read of a very long question."""

_FIRST = re.compile(
    r"\b(?:first|originally|initially|at the start|beginning|zuerst|anfangs|ursprunglich|d'abord|premier|premiere"
    r"|primero|primera|al principio|inizialmente|primeiro|впервые|сначала)\b|最初|第一次|一开始|처음|أول مرة"
)
_LAST = re.compile(
    r"\b(?:last|latest|most recent|recently|newest|yesterday|currently|zuletzt|neulich|gestern|dernier|derniere|hier"
    r"|ultimo|ultima|recientemente|ayer|ieri|ontem|недавно|вчера|в последний раз)\b"
    r"|最近|上次|昨天|最後|昨日|마지막|어제|آخر مرة|أمس"
)


CODE_CHARS = 5
"""From which on a word is somebody's or something's id, if it has letters and digits or is in capitals: 5 pm is none,
nor is NASA."""
_CAPITALS = re.compile(rf"(?<!\w)[A-Z]{{{CODE_CHARS},}}(?!\w)")


@dataclass(frozen=True, slots=True)
class Word:
    """A term of a question, as it is stored and as it is. `weight` is what it counts beside its rarity."""

    token: str
    weight: float
    term: str = ""
    is_code: bool = False
    """It is an id or the like: who names one speaks of what was said about it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to look for. `pairs` are places of words that stand side by side. `lean`: -1 the oldest, 1 the newest."""

    words: tuple[Word, ...]
    pairs: tuple[tuple[int, int], ...] = ()
    lean: int = 0
    times: tuple[Time, ...] = ()
    """Days or months that it names."""
    form: Form = NO_FORM


def read_question(text: str, owner_id: int) -> Question:
    """What a question of that owner looks for; without words where it says nothing to look for."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    said = terms(text)
    kept = _most_specific(list(dict.fromkeys(said)))
    places = {term: place for place, term in enumerate(kept)}
    codes = _codes(kept, text)
    words = tuple(
        Word(token, _weight(term), term, term in codes)
        for token, term in zip(hashed(kept, owner_id), kept, strict=True)
    )
    beside = {(a, b) for a, b in pairwise(said) if a != b and a in places and b in places}
    pairs = tuple(sorted((places[a], places[b]) for a, b in beside))
    folded = fold(text[:HEAD_CHARS])
    return Question(words, pairs, _lean(folded), times(folded), form_of(text))


def _most_specific(found: Sequence[str]) -> list[str]:
    """The terms to look up, in the order of the question: what holds digits first, then what is long."""
    if len(found) <= MOST_TERMS:
        return list(found)
    ranked = sorted(found, key=lambda term: (-_weight(term), -len(term)))
    chosen = set(ranked[:MOST_TERMS])
    return [term for term in found if term in chosen]


def _weight(term: str) -> float:
    """Numbers, ids, dates and paths are said on purpose."""
    if term.isalpha():
        return 1.0
    return 0.7 if len(term) == 1 else 1.5


def _codes(found: Sequence[str], text: str) -> set[str]:
    """The terms of a question that are ids. Capitals tell nothing where most of it is written in them."""
    is_shouted = 2 * sum(map(str.isupper, text)) > sum(map(str.isalpha, text))
    in_capitals = set() if is_shouted else {term for word in _CAPITALS.findall(text) for term in terms(word)}
    return {term for term in found if term in in_capitals or _has_letters_and_digits(term)}


def _has_letters_and_digits(term: str) -> bool:
    return len(term) >= CODE_CHARS and any(map(str.isalpha, term)) and any(map(str.isdigit, term))


def _lean(folded: str) -> int:
    first, last = _FIRST.search(folded) is not None, _LAST.search(folded) is not None
    return last - first
