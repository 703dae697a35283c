"""What memory still holds of what was said, by how long ago it was last said. Pure.

At each prompt, the things that were last said exactly d turns before are looked up in its memory: in any form, or to
the letter, as whole words (an "11" is not held by "2011"). A thing that is said again starts anew, so nothing counts
as kept only because somebody repeated it. The work of one prompt is bounded, whatever the length of the conversation.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chatmemory.text.entities import CJK
from chatmemory.text.salience import spans


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
    total: Kept = {distance: RetentionTally() for distance in DISTANCES}
    for kept in many:
        for distance, tally in kept.items():
            total[distance].add(tally)
    return total


def _count(tally: RetentionTally, thing: Thing, memory: Haystack) -> None:
    tally.asked += 1
    tally.kept += memory.has((*thing.said, *thing.other))
    tally.verbatim += memory.has_exactly(thing.said)


def _sampled(things: Sequence[Thing]) -> Sequence[Thing]:
    step = -(-len(things) // MOST_THINGS)
    return things[::step] if step > 1 else things
