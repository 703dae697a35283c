"""Retention: what memory still contains of what was said, by how long ago it was last said. Pure.

At each prompt, the things that were last said exactly d turns before are looked up in its memory: in any form, or
verbatim, as whole words ("2011" does not contain "11"). A thing that is said again starts anew, so nothing counts as
kept only because somebody repeated it. The work for one prompt is bounded, whatever the length of the conversation.

In addition, the things that a question names are looked up in that question's memory, however long ago they were
said.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chatmemory.text.salience import spans
from chatmemory.text.spans import CJK
from memory.recall.analysis.terms import terms


class Haystack:
    """A text to search, prepared once for many lookups."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._folded = _folded(text)

    def has(self, forms: Iterable[str]) -> bool:
        """Whether one of `forms` is in the text, ignoring case and white space."""
        return any(_is_in(_folded(form), self._folded) for form in forms)

    def has_exactly(self, forms: Iterable[str]) -> bool:
        """Whether one of `forms` is in the text exactly."""
        return any(_is_in(form, self._text) for form in forms)


def as_written(forms: Sequence[str], text: str) -> tuple[str, ...]:
    """`forms` as spelled in `text`, ignoring case, each spelling once; `forms` themselves if it has none of them."""
    any_form = "|".join(re.escape(form) for form in forms if form)
    found = re.findall(rf"(?<!\w)(?:{any_form})(?!\w)", text, re.IGNORECASE) if any_form else []
    return tuple(dict.fromkeys(found)) or tuple(forms)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _is_in(phrase: str, text: str) -> bool:
    at = text.find(phrase) if phrase else -1
    while at >= 0:
        end = at + len(phrase)
        if not _runs_on(text[at - 1 : at], phrase[0]) and not _runs_on(phrase[-1], text[end : end + 1]):
            return True
        at = text.find(phrase, at + 1)
    return False


def _runs_on(before: str, after: str) -> bool:
    """Whether two adjacent characters belong to one word; False for scripts without spaces."""
    return before.isalnum() and after.isalnum() and not CJK.match(before) and not CJK.match(after)


DISTANCES = (1, 2, 5, 10, 20, 50, 100)
"""Distances, in turns, at which things are looked up: 1 is the very next prompt."""

MOST_MENTIONS = 40
"""Things of one turn that are followed; of more than that, an evenly spaced sample is taken."""


@dataclass(frozen=True, slots=True)
class Mention:
    """Something that was mentioned, in its written forms. `key` is the same for the same thing."""

    key: str
    said: tuple[str, ...]
    """The forms in which it was written."""
    other: tuple[str, ...] = ()
    """Other forms in which it may be written."""


@dataclass(slots=True)
class RetentionTally:
    """The number of things looked up, and of those found."""

    asked: int = 0
    kept: int = 0
    verbatim: int = 0

    @property
    def share(self) -> float | None:
        """The share found in any form, 0 to 1; None if nothing was looked up."""
        return self.kept / self.asked if self.asked else None

    @property
    def share_verbatim(self) -> float | None:
        """The share found verbatim, 0 to 1; None if nothing was looked up."""
        return self.verbatim / self.asked if self.asked else None

    def add(self, other: RetentionTally) -> None:
        """Add the counts of `other`."""
        self.asked += other.asked
        self.kept += other.kept
        self.verbatim += other.verbatim


Kept = dict[int, RetentionTally]
"""A tally for each distance."""


@dataclass(slots=True)
class RetentionTracker:
    """Follows the things of one talk from turn to turn: call `look` for each prompt, then `say` for its turn."""

    tallies: Kept = field(default_factory=lambda: {distance: RetentionTally() for distance in DISTANCES})
    _recent: deque[Sequence[Mention]] = field(default_factory=lambda: deque(maxlen=max(DISTANCES)))
    _last_said: dict[str, int] = field(default_factory=dict)
    _turns: int = 0

    def look(self, memory: Haystack) -> None:
        """Look up in the next prompt's memory the things whose distance has come."""
        for distance, tally in self.tallies.items():
            if distance > self._turns:
                break
            for mention in self._recent[-distance]:
                if self._last_said[mention.key] == self._turns - distance:
                    _count(tally, mention, memory)

    def say(self, mentions: Sequence[Mention]) -> None:
        """Record a finished turn that said `mentions`."""
        for mention in mentions:
            self._last_said[mention.key] = self._turns
        self._recent.append(_sampled(mentions))
        self._turns += 1


NAMED = (5, 20, 100, 1_000_000)
"""Upper bounds, in turns, of the ranges by which named things are grouped: how long ago a thing was last said."""
RARE = 0.05
"""A term is rare if at most this share of the turns so far have it, or at most two of them."""
ENOUGH = 2
"""How many rare terms of the sentence that last said a thing a question must have to name it without its value."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a thing was last said, and the terms beside it."""

    mention: Mention
    turn: int
    beside: frozenset[str]


@dataclass(slots=True)
class NamedFactTracker:
    """Whether what questions name is in their memory: call `look` for each prompt, then `say` for its turn.

    A question names a thing if it repeats its value, or has at least two rare terms of the sentence that said it
    last.
    """

    tallies: Kept = field(default_factory=lambda: {distance: RetentionTally() for distance in NAMED})
    _places: dict[str, _Place] = field(default_factory=dict)
    _turns_with: Counter[str] = field(default_factory=Counter)
    _turns: int = 0

    def look(self, question: str, memory: Haystack) -> None:
        """Look up in the next prompt's memory the things that its `question` names."""
        asked, rare = Haystack(question), self._rare(question)
        for place in self._places.values():
            forms = (*place.mention.said, *place.mention.other)
            if asked.has(forms) or len(rare & place.beside) >= ENOUGH:
                _count(self.tallies[self._distance(place)], place.mention, memory)

    def say(self, mentions: Sequence[Mention], *texts: str) -> None:
        """Record a finished turn that said `mentions` in `texts`."""
        for mention in mentions:
            self._places[mention.key] = _Place(mention, self._turns, _beside(mention, texts))
        self._turns_with.update({term for text in texts for term in terms(text)})
        self._turns += 1

    def _rare(self, question: str) -> set[str]:
        most = max(2.0, RARE * self._turns)
        return {term for term in terms(question) if self._turns_with[term] <= most}

    def _distance(self, place: _Place) -> int:
        return next(distance for distance in NAMED if self._turns - place.turn <= distance)


def _beside(mention: Mention, texts: Iterable[str]) -> frozenset[str]:
    """The terms of the sentences that say a thing, without its own terms."""
    forms = (*mention.said, *mention.other)
    sentences = [one for text in texts for one in _SENTENCE_END.split(text) if Haystack(one).has(forms)]
    own = {term for form in forms for term in terms(form)}
    return frozenset(term for one in sentences for term in terms(one)) - own


def spans_of(*texts: str) -> list[Mention]:
    """The salient spans of `texts`, each once."""
    found = {span.casefold(): span for text in texts for span in spans(text)}
    return [Mention(key, (span,)) for key, span in found.items()]


def kept_to_json(kept: Mapping[int, RetentionTally]) -> dict[str, Any]:
    """Tallies as JSON: distance → `{"asked", "kept", "verbatim"}`."""
    return {
        str(distance): {"asked": one.asked, "kept": one.kept, "verbatim": one.verbatim}
        for distance, one in kept.items()
    }


def kept_from_json(data: Mapping[str, Any]) -> Kept:
    """The tallies that `kept_to_json` wrote."""
    return {int(distance): RetentionTally(**one) for distance, one in data.items()}


def summed(many: Iterable[Mapping[int, RetentionTally]]) -> Kept:
    """The sums of the tallies of several talks."""
    total: Kept = {}
    for kept in many:
        for distance, tally in kept.items():
            total.setdefault(distance, RetentionTally()).add(tally)
    return total


def _count(tally: RetentionTally, mention: Mention, memory: Haystack) -> None:
    tally.asked += 1
    tally.kept += memory.has((*mention.said, *mention.other))
    tally.verbatim += memory.has_exactly(mention.said)


def _sampled(mentions: Sequence[Mention]) -> Sequence[Mention]:
    step = -(-len(mentions) // MOST_MENTIONS)
    return mentions[::step] if step > 1 else mentions
