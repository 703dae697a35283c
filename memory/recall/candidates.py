"""Finds of a question's words in an index → the messages to look at closely. Pure, and the same for every chat.

Words are bits of a number, the first the lowest: what stands at one place is one number, and what its words are worth
together is reckoned once, however many places have the same. Which of them are worth a closer look, and what they say,
is decided in `memory.recall.ranking`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from memory.recall.query import Question

NEIGHBOURS = ((1, 0.6), (2, 0.45), (3, 0.3), (4, 0.2))
"""How much a term counts that stands so many messages before or after."""
NEAR = 0.5
"""How much all of that counts beside the message's own words."""
AGAIN = 0.5
"""How much of that where the term stands nearer, too."""


@dataclass(frozen=True, slots=True)
class Finds:
    """Which words of a question stand at which seqs, and how much each word says: rare ones most."""

    at: Mapping[int, int]
    worth: tuple[float, ...]
    _sums: dict[int, float] = field(default_factory=dict, compare=False, repr=False)
    _near: dict[int, float] = field(default_factory=dict, compare=False, repr=False)

    def total(self, words: int) -> float:
        """What these words are worth together."""
        known = self._sums.get(words)
        if known is None:
            known = sum([worth for at, worth in enumerate(self.worth) if words >> at & 1])
            self._sums[words] = known
        return known

    def around(self, seq: int, own: int) -> tuple[float, int]:
        """What the words of the messages around message `seq` add, which itself has the words `own`; all of both."""
        at, total, added = self.at.get, self.total, 0.0
        for step, share in NEIGHBOURS:
            if there := at(seq - step, 0) | at(seq + step, 0):
                again = there & own
                added += share * (total(there ^ again) + AGAIN * total(again) if again else total(there))
                own |= there
        return added, own

    def near(self, seq: int) -> float:
        """What the words of message `seq` and of those around it are worth: reckoned once."""
        known = self._near.get(seq)
        if known is None:
            own = self.at.get(seq, 0)
            known = self._near[seq] = self.total(own) + NEAR * self.around(seq, own)[0]
        return known


def weigh(question: Question, seqs: Sequence[Sequence[int]], most: int, last_seq: int) -> Finds:
    """The finds of each word (at most `most` of one were read), and the words' worth by how many there must be."""
    worth = tuple(
        word.weight * _rarity(_spread(found, most, last_seq), last_seq)
        for word, found in zip(question.words, seqs, strict=True)
    )
    return Finds(_placed({}, ((1 << at, found) for at, found in enumerate(seqs))), worth)


def said_together(finds: Finds, is_cut: Sequence[bool]) -> list[tuple[int, ...]]:
    """Which words to look up together, because none of them alone leads anywhere: all are too common to be read whole.

    The two that are rarest. Empty where a word is rare enough to go by.
    """
    common = sorted((at for at, cut in enumerate(is_cut) if cut), key=lambda at: -finds.worth[at])
    if len(common) < 2:
        return []
    rare = sum([1 << at for at, cut in enumerate(is_cut) if not cut])
    if any(words & rare for words in set(finds.at.values())):
        return []
    return [tuple(common[:2])]


def with_places(finds: Finds, together: Sequence[tuple[int, ...]], seqs: Sequence[Sequence[int]]) -> Finds:
    """`finds`, and where the words that were looked up together stand."""
    words = (sum([1 << at for at in ats]) for ats in together)
    return Finds(_placed(finds.at, zip(words, seqs, strict=True)), finds.worth)


def places(finds: Finds, shown: frozenset[int], most: int) -> list[int]:
    """Seqs of the messages that may be worth a closer look, best first, at most so many, none of them `shown`."""
    totals = {words: finds.total(words) for words in set(finds.at.values())}
    own = sorted([(totals[words], seq) for seq, words in finds.at.items()], reverse=True)
    first = [seq for _, seq in own[: most + most // 2]]
    beside = {seq + step for seq in first[: most // 2] for step in (-2, -1, 1, 2, 3)}
    around = {*first, *beside} - shown
    ranked = sorted([(finds.near(seq), seq) for seq in around if seq > 0], reverse=True)
    return [seq for _, seq in ranked[:most]]


def _placed(at: Mapping[int, int], found: Iterable[tuple[int, Sequence[int]]]) -> dict[int, int]:
    """`at`, and these words at these seqs."""
    placed = dict(at)
    for words, seqs in found:
        for seq in seqs:
            placed[seq] = placed.get(seq, 0) | words
    return placed


def _spread(found: Sequence[int], most: int, last_seq: int) -> float:
    """In about how many messages a word stands, by how densely those lie that were read.

    PostgreSQL may have read some of here and some of there, so the widest gaps do not count.
    """
    if len(found) < most:
        return float(len(found))
    places = sorted(found)
    gaps = sorted([after - before for before, after in pairwise(places)])
    kept = gaps[: max(1, len(gaps) * 9 // 10)]
    return last_seq * len(kept) / sum(kept)


def _rarity(messages: float, last_seq: int) -> float:
    """Little for what stands in every second message: that is how these people talk. Never nothing."""
    return math.log(1 + max(0.5, last_seq - messages + 0.5) / (messages + 0.5))
