"""Whether a fact is in a text, which versions of a summary had it, and how a prompt contains it. Pure.

A fact is its words, as recall reads them. It is in a text if all of them are in one passage, in any of their forms.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Generic, NamedTuple, TypeVar

from memory.explain.reasons import OUTSIDE_MEMORY
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

Version = TypeVar("Version")


class HeldSpan(NamedTuple, Generic[Version]):
    """Consecutive versions of a summary that have the fact, and the next one, which lost it, if any."""

    first: Version
    last: Version
    lost: Version | None


def has_fact(text: str, words: AbstractSet[str]) -> bool:
    """Whether one passage of `text` has all the words; a fact without words is in no text."""
    spans = passages(text) if words else []
    return any(words <= set(terms(text[start:end])) for start, end in spans)


def held_spans(known: Iterable[tuple[Version, bool]]) -> Iterator[HeldSpan[Version]]:
    """Yield the spans of versions that have the fact, from consecutive versions with whether they have it."""
    span: tuple[Version, Version] | None = None
    for version, is_held in known:
        if is_held:
            span = (span[0] if span else version, version)
        elif span:
            yield HeldSpan(*span, version)
            span = None
    if span:
        yield HeldSpan(*span, None)


def ways_in(sections: Iterable[tuple[str, str]], words: AbstractSet[str]) -> list[str]:
    """The ways in which a prompt with `sections`, (kind, text) pairs, contains the fact, except in the question."""
    found = {
        OF_SECTION.get(kind, "summary")
        for kind, text in sections
        if kind not in OUTSIDE_MEMORY and has_fact(text, words)
    }
    return [way for way in WAYS if way in found]
