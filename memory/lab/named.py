"""What questions name, and whether the memory in their prompts has it. Pure.

Followed are the annotated facts of a conversation, or if it has none, the numbers, dates, names and ids said in it. A
question names such a thing if it repeats it, or has at least two rare terms of the sentence that said it last. The
thing is looked up in the memory of that question's prompt, in any of its forms and as whole words ("2011" does not
contain "11"); the question itself does not count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from chatmemory.text.spans import CJK, spans
from memory.recall.analysis.terms import terms

RARE = 0.05
"""A term is rare if at most this share of the turns so far have it, or at most two of them."""
ENOUGH = 2
"""How many rare terms of the sentence that last said a thing a question must have to name it without its value."""
MOST_MENTIONS = 40
"""Things of one turn that are followed; of more than that, an evenly spaced sample is taken."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


class Haystack:
    """A text to search, prepared once for many lookups."""

    def __init__(self, text: str) -> None:
        self._folded = _folded(text)

    def has(self, forms: Iterable[str]) -> bool:
        """Whether one of `forms` is in the text, ignoring case and white space."""
        return any(_is_in(_folded(form), self._folded) for form in forms)


@dataclass(frozen=True, slots=True)
class Mention:
    """Something that was mentioned, in all its forms. `key` is the same for the same thing."""

    key: str
    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """The terms beside a thing where it was last said."""

    mention: Mention
    beside: frozenset[str]


@dataclass(slots=True)
class NamedTracker:
    """Counts what questions name, and what of it memory has: call `look` for each prompt, then `say` for its turn."""

    named: int = 0
    held: int = 0
    _places: dict[str, _Place] = field(default_factory=dict)
    _turns_with: Counter[str] = field(default_factory=Counter)
    _turns: int = 0

    def look(self, question: str, memory: Haystack) -> None:
        """Look up in the next prompt's memory the things that its `question` names."""
        asked = Haystack(question)
        most = max(2.0, RARE * self._turns)
        rare = {term for term in terms(question) if self._turns_with[term] <= most}
        for place in self._places.values():
            if len(rare & place.beside) >= ENOUGH or asked.has(place.mention.forms):
                self.named += 1
                self.held += memory.has(place.mention.forms)

    def say(self, mentions: Sequence[Mention], *texts: str) -> None:
        """Record a finished turn that said `mentions` in `texts`."""
        sentences = [one for text in texts for one in _SENTENCE_END.split(text) if one.strip()]
        searched = [(Haystack(one), frozenset(terms(one))) for one in sentences]
        for mention in mentions[:: max(1, -(-len(mentions) // MOST_MENTIONS))]:
            own = {term for form in mention.forms for term in terms(form)}
            beside = {term for text, said in searched if text.has(mention.forms) for term in said}
            self._places[mention.key] = _Place(mention, frozenset(beside - own))
        self._turns_with.update({term for _, said in searched for term in said})
        self._turns += 1


def spans_of(*texts: str) -> list[Mention]:
    """The numbers, dates, names and ids of `texts`, each once."""
    found = {span.casefold(): span for text in texts for span in spans(text)}
    return [Mention(key, (span,)) for key, span in found.items()]


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
