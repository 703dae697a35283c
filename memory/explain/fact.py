"""Whether a fact is in a text, which versions of a summary had it, and how a prompt contains it. Pure.

A fact is in a text if all its words are in one passage of it, in any of their forms, which is how recall finds words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from memory.explain.reasons import OUTSIDE_MEMORY
from memory.recall.question import Question
from memory.recall.terms import passages, terms

WAYS = {
    "verbatim": "in full",
    "line": "in a one-line summary",
    "summary": "in the summary",
    "recalled": "recalled",
    "pinned": "pinned",
}
"""The ways in which a prompt can contain a fact, and their names for people."""
OF_SECTION = {"window": "verbatim", "lines": "line", "recall": "recalled", "pins": "pinned"}
"""The way that corresponds to a section of a prompt. A policy's own sections count as the summary."""


@dataclass(frozen=True, slots=True)
class TracedFact:
    """The fact to trace: its words, as recall reads them."""

    words: frozenset[str]

    @classmethod
    def of(cls, asked: Question) -> TracedFact:
        """The fact that `asked` names; one without words is in no text."""
        return cls(frozenset(word.term for word in asked.words))

    def is_in(self, text: str) -> bool:
        """Whether one passage of `text` has all the words."""
        spans = passages(text) if self.words else []
        return any(self.words.issubset(terms(text[start:end])) for start, end in spans)


class HeldSpan(NamedTuple):
    """Consecutive versions of a summary that have the fact, and the next one, which lost it, if any."""

    from_version: int
    through_version: int
    lost_in: int | None


def held_spans(known: Iterable[tuple[int, bool]]) -> Iterator[HeldSpan]:
    """Yield the spans of versions that have the fact, from consecutive versions with whether they have it."""
    first, version = None, 0
    for version, is_held in known:
        if is_held:
            first = first or version
        elif first:
            yield HeldSpan(first, version - 1, version)
            first = None
    if first:
        yield HeldSpan(first, version, None)


def ways_in(sections: Iterable[tuple[str, str]], fact: TracedFact) -> list[str]:
    """The ways in which a prompt with `sections`, (kind, text) pairs, contains the fact, except in the question."""
    found = {
        OF_SECTION.get(kind, "summary")
        for kind, text in sections
        if kind not in OUTSIDE_MEMORY and fact.is_in(text)
    }
    return [way for way in WAYS if way in found]
