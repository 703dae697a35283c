"""Whether a fact is in a text, which versions of a summary had it, and how a prompt contains it. Pure.

A fact is in a text if all its words are in one passage of it, in any of their forms, which is how recall finds words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from memory.explain.reasons import OUTSIDE_MEMORY
from memory.recall.analysis.terms import passages, terms
from memory.recall.query import Question

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

Holds = Callable[[Collection[int]], Mapping[int, bool]]
"""A function that returns which of the given versions have the fact."""


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


def held_spans(marks: Sequence[int], newest: int, holds: Holds) -> list[HeldSpan]:
    """Find which versions, from the first of `marks` to `newest`, have the fact.

    `marks` are in order. Between two marks the fact is assumed to appear or disappear at most once, as a fold keeps
    or drops what was there. So binary search reads only a few of many versions.
    """
    spans = [(first, after - 1) for first, after in pairwise([*marks, newest + 1])]
    known = dict(holds({version for span in spans for version in span}))
    while halves := [span for span in spans if known[span[0]] != known[span[1]] and span[1] - span[0] > 1]:
        middles = [(first + last) // 2 for first, last in halves]
        known |= holds(middles)
        spans = [
            (middle, last) if known[middle] == known[first] else (first, middle)
            for (first, last), middle in zip(halves, middles, strict=True)
        ]
    return list(_spans(sorted(known.items())))


def _spans(known: Iterable[tuple[int, bool]]) -> Iterator[HeldSpan]:
    first = last = None
    for version, is_held in known:
        if is_held:
            first, last = version if first is None else first, version
        elif first is not None and last is not None:
            yield HeldSpan(first, last, version)
            first = None
    if first is not None and last is not None:
        yield HeldSpan(first, last, None)


def ways_in(sections: Iterable[tuple[str, str]], fact: TracedFact) -> list[str]:
    """The ways in which a prompt with `sections`, (kind, text) pairs, contains the fact, except in the question."""
    found = {
        OF_SECTION.get(kind, "summary")
        for kind, text in sections
        if kind not in OUTSIDE_MEMORY and fact.is_in(text)
    }
    return [way for way in WAYS if way in found]
