"""Parse a question into what to search for: weighted terms, neighbouring terms, its form, and the time it asks about.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from memory.recall.analysis.dates import Time, times
from memory.recall.analysis.hashed_terms import hashed
from memory.recall.analysis.terms import fold, terms
from memory.recall.question_forms import NO_FORM, Form, form_of

MOST_TERMS = 12
"""Maximum number of terms that are looked up: of a longer question the most specific in what is read of it."""
HEAD_CHARS, TAIL_CHARS = 2000, 1000
"""Characters at the beginning and end of a very long question that are read."""

CODE_CHARS = 5
"""Length from which a word counts as an id, if it has letters and digits or is in capitals: "5 pm" does not, nor does
"NASA"."""
_CAPITALS = re.compile(rf"(?<!\w)[A-Z]{{{CODE_CHARS},}}(?!\w)")


@dataclass(frozen=True, slots=True)
class Word:
    """A term of a question, hashed (`token`) and plain (`term`). `weight` is multiplied with its rarity."""

    token: str
    weight: float
    term: str = ""
    is_code: bool = False
    """Whether it is an id or the like: a message that names one refers to what was said about it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to search for. `pairs` are indexes of neighbouring words."""

    words: tuple[Word, ...]
    pairs: tuple[tuple[int, int], ...] = ()
    times: tuple[Time, ...] = ()
    """Days or months that it names."""
    form: Form = NO_FORM


def read_question(text: str, owner_id: int) -> Question:
    """Parse a question of that owner. It has no words if there is nothing to search for."""
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
    return Question(words, pairs, times(fold(text[:HEAD_CHARS])), form_of(text))


def _most_specific(found: Sequence[str]) -> list[str]:
    """Return the terms to look up, in the order of the question: those with digits first, then the longest."""
    if len(found) <= MOST_TERMS:
        return list(found)
    ranked = sorted(found, key=lambda term: (-_weight(term), -len(term)))
    chosen = set(ranked[:MOST_TERMS])
    return [term for term in found if term in chosen]


def _weight(term: str) -> float:
    """Numbers, ids, dates and paths weigh more, because they are used on purpose."""
    if term.isalpha():
        return 1.0
    return 0.7 if len(term) == 1 else 1.5


def _codes(found: Sequence[str], text: str) -> set[str]:
    """The terms of a question that are ids. Capitals do not count if most of the text is in capitals."""
    is_shouted = 2 * sum(map(str.isupper, text)) > sum(map(str.isalpha, text))
    in_capitals = set() if is_shouted else {term for word in _CAPITALS.findall(text) for term in terms(word)}
    return {term for term in found if term in in_capitals or _has_letters_and_digits(term)}


def _has_letters_and_digits(term: str) -> bool:
    return len(term) >= CODE_CHARS and any(map(str.isalpha, term)) and any(map(str.isdigit, term))
