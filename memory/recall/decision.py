"""Decide whether a question calls for earlier turns, and for how many: excerpts cost tokens, useful or not. Pure.

Chance is weighed against cost. Whoever asks gets as many excerpts as there is room for, whenever anything matches:
that the window has the question's words says that the topic is there, not the answer. Anything else gets some if it
matches earlier messages well. `docs/prompt.md` says on which chats that was chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from memory.limits import MemoryLimits
from memory.recall.candidates import Matches
from memory.recall.query import Question

STRONG = 40.0
"""Weight of a message's words that occur in earlier turns from which they are worth some tokens although it asks for
nothing: about half a dozen rare ones."""

REASONS = {
    "chosen": "Recall is set to search for every question.",
    "question": "It asks for something that may have been said before.",
    "refers_back": "It refers to what was said before.",
    "strong_match": "Earlier messages match it well.",
    "new_words": "It has words that appear only in earlier messages.",
    "nothing_new": "It asks for nothing, and nothing earlier matches it well.",
    "no_words": "It has no words to search for.",
    "all_shown": "Every turn is in the prompt in full.",
    "off": "Recall is switched off.",
}
"""The reasons, as shown to people."""


def decide(limits: MemoryLimits, question: Question, matches: Matches, known: int) -> Recall:
    """Decide how much of earlier turns `question` calls for. `known` are its words shown in the prompt, as bits."""
    form = question.form
    there = _there(matches)
    if form.asks:
        return Recall("all", "question")
    if limits.recall == "always":
        return Recall("all", "chosen")
    if form.refers_back and there:
        return Recall("all", "refers_back")
    if there & _codes(question) & ~known:
        return Recall("some", "new_words")
    if form.forgot and there:  # they cannot name what they look for
        return Recall("some", "refers_back")
    if matches.total(there) >= STRONG:
        return Recall("some", "strong_match")
    return Recall("none", "nothing_new")


def _codes(question: Question) -> int:
    """The words that are ids, as bits."""
    return sum(1 << at for at, word in enumerate(question.words) if word.is_code)


def is_lean(recall: Recall) -> bool:
    """Whether turns before the window become lines in this prompt, to make room for excerpts.

    An answer from far back is worth one miss in the provider's cache; context is not.
    """
    return recall.sought == "all" and recall.reason != "chosen"


def room_for(recall: Recall, limits: MemoryLimits, free: int) -> int:
    """Tokens of the `free` ones that excerpts may have."""
    if recall.sought == "some":
        return min(free, limits.some_room)
    return free if recall.sought == "all" else 0


def known_words(
    question: Question, matches: Matches, shown: Iterable[int], remembered: Collection[str]
) -> int:
    """The question's words, as bits, that occur in the messages `shown` or among the terms `remembered`."""
    known = 0
    for seq in shown:
        known |= matches.at.get(seq, 0)
    return known | sum(1 << at for at, word in enumerate(question.words) if word.term in remembered)


def _there(matches: Matches) -> int:
    """All words that occur anywhere earlier, as bits."""
    there = 0
    for words in matches.at.values():
        there |= words
    return there


Sought = Literal["all", "some", "none"]
"""How much of earlier turns a question calls for: as much as there is room for, a little, or nothing."""


class Recall(NamedTuple):
    """Whether earlier turns were searched for a question, and why (`memory.recall.decision.REASONS`)."""

    sought: Sought
    reason: str
