"""What memory still holds of what was said, by how long ago it was last said. Pure.

At each prompt, the things that were last said exactly d turns before are looked up in its memory: in any form, or to
the letter, as whole words (an "11" is not held by "2011"). A thing that is said again starts anew, so nothing counts
as kept only because somebody repeated it. The work of one prompt is bounded, whatever the length of the conversation.

Beside that, what a question names is looked up in that question's memory, however long ago it was said.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chatmemory.text.entities import CJK
from chatmemory.text.salience import spans
from memory.recall.analysis.terms import terms


class Haystack:
    """A text to look in, prepared once for many looks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._folded = _folded(text)

    def has(self, forms: Iterable[str]) -> bool:
        """Whether one of `forms` is there, case and white space aside."""
        return any(_is_in(_folded(form), self._folded) for form in forms)

    def has_exactly(self, forms: Iterable[str]) -> bool:
        """Whether one of `forms` is there to the letter."""
        return any(_is_in(form, self._text) for form in forms)


def as_written(forms: Sequence[str], text: str) -> tuple[str, ...]:
    """`forms` as `text` writes them, case aside, each spelling once; `forms` themselves where it has none of them."""
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
    """Whether two neighbouring characters are of one word. Scripts without spaces have no such thing."""
    return before.isalnum() and after.isalnum() and not CJK.match(before) and not CJK.match(after)


DISTANCES = (1, 2, 5, 10, 20, 50, 100)
"""Turns after which is looked: 1 is the very next prompt."""

MOST_THINGS = 40
"""Things of one turn that are followed; of more, so many at even steps."""


@dataclass(frozen=True, slots=True)
class Thing:
    """Something that was said, in its written forms. `key` is the same for the same thing."""

    key: str
    said: tuple[str, ...]
    """As it was written."""
    other: tuple[str, ...] = ()
    """How else it may be written."""


@dataclass(slots=True)
class RetentionTally:
    """How many things were looked for, and how many were there."""

    asked: int = 0
    kept: int = 0
    verbatim: int = 0

    @property
    def share(self) -> float | None:
        """Kept in any form, 0 to 1; None where nothing was looked for."""
        return self.kept / self.asked if self.asked else None

    @property
    def share_verbatim(self) -> float | None:
        """Kept to the letter, 0 to 1; None where nothing was looked for."""
        return self.verbatim / self.asked if self.asked else None

    def add(self, other: RetentionTally) -> None:
        """Count in what `other` counted."""
        self.asked += other.asked
        self.kept += other.kept
        self.verbatim += other.verbatim


Kept = dict[int, RetentionTally]
"""A tally for each distance."""


@dataclass(slots=True)
class Keeping:
    """Follows the things of one talk from turn to turn: `look` at each prompt, then `say` what its turn said."""

    tallies: Kept = field(default_factory=lambda: {distance: RetentionTally() for distance in DISTANCES})
    _recent: deque[Sequence[Thing]] = field(default_factory=lambda: deque(maxlen=max(DISTANCES)))
    _last_said: dict[str, int] = field(default_factory=dict)
    _turns: int = 0

    def look(self, memory: Haystack) -> None:
        """Look up in the memory of the next prompt what is due to be looked up."""
        for distance, tally in self.tallies.items():
            if distance > self._turns:
                break
            for thing in self._recent[-distance]:
                if self._last_said[thing.key] == self._turns - distance:
                    _count(tally, thing, memory)

    def say(self, things: Sequence[Thing]) -> None:
        """A turn is finished that said `things`."""
        for thing in things:
            self._last_said[thing.key] = self._turns
        self._recent.append(_sampled(things))
        self._turns += 1


NAMED = (5, 20, 100, 1_000_000)
"""Up to how many turns ago something was last said that a question names."""
RARE = 0.05
"""A term is rare that stands in no more than this share of the turns so far, or in two of them."""
ENOUGH = 2
"""Rare terms of the sentence that said something last, by which a question names it without its value."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a thing was said last, and the terms beside it."""

    thing: Thing
    turn: int
    beside: frozenset[str]


@dataclass(slots=True)
class Naming:
    """Whether what questions name is in their memory: `look` at each prompt, then `say` what its turn said.

    It names a thing when it repeats its value, or has at least two rare terms of the sentence that said it last.
    """

    tallies: Kept = field(default_factory=lambda: {distance: RetentionTally() for distance in NAMED})
    _places: dict[str, _Place] = field(default_factory=dict)
    _turns_with: Counter[str] = field(default_factory=Counter)
    _turns: int = 0

    def look(self, question: str, memory: Haystack) -> None:
        """Look up in the memory of the next prompt what its `question` names."""
        asked, rare = Haystack(question), self._rare(question)
        for place in self._places.values():
            forms = (*place.thing.said, *place.thing.other)
            if asked.has(forms) or len(rare & place.beside) >= ENOUGH:
                _count(self.tallies[self._distance(place)], place.thing, memory)

    def say(self, things: Sequence[Thing], *texts: str) -> None:
        """A turn is finished that said `things` in `texts`."""
        for thing in things:
            self._places[thing.key] = _Place(thing, self._turns, _beside(thing, texts))
        self._turns_with.update({term for text in texts for term in terms(text)})
        self._turns += 1

    def _rare(self, question: str) -> set[str]:
        most = max(2.0, RARE * self._turns)
        return {term for term in terms(question) if self._turns_with[term] <= most}

    def _distance(self, place: _Place) -> int:
        return next(distance for distance in NAMED if self._turns - place.turn <= distance)


def _beside(thing: Thing, texts: Iterable[str]) -> frozenset[str]:
    """The terms of the sentences that say a thing, without its own."""
    forms = (*thing.said, *thing.other)
    sentences = [one for text in texts for one in _SENTENCE_END.split(text) if Haystack(one).has(forms)]
    own = {term for form in forms for term in terms(form)}
    return frozenset(term for one in sentences for term in terms(one)) - own


def spans_of(*texts: str) -> list[Thing]:
    """The salient spans of `texts`, each once."""
    found = {span.casefold(): span for text in texts for span in spans(text)}
    return [Thing(key, (span,)) for key, span in found.items()]


def kept_to_json(kept: Mapping[int, RetentionTally]) -> dict[str, Any]:
    """Tallies as JSON holds them: distance → `{"asked", "kept", "verbatim"}`."""
    return {
        str(distance): {"asked": one.asked, "kept": one.kept, "verbatim": one.verbatim}
        for distance, one in kept.items()
    }


def kept_from_json(data: Mapping[str, Any]) -> Kept:
    """The tallies that `kept_to_json` wrote."""
    return {int(distance): RetentionTally(**one) for distance, one in data.items()}


def summed(many: Iterable[Mapping[int, RetentionTally]]) -> Kept:
    """All tallies of several talks together."""
    total: Kept = {}
    for kept in many:
        for distance, tally in kept.items():
            total.setdefault(distance, RetentionTally()).add(tally)
    return total


def _count(tally: RetentionTally, thing: Thing, memory: Haystack) -> None:
    tally.asked += 1
    tally.kept += memory.has((*thing.said, *thing.other))
    tally.verbatim += memory.has_exactly(thing.said)


def _sampled(things: Sequence[Thing]) -> Sequence[Thing]:
    step = -(-len(things) // MOST_THINGS)
    return things[::step] if step > 1 else things
