"""Select the messages to examine from the index's matches for a question's words. Pure, the same for every chat.

A set of words is a number with one bit per word, the first the lowest. The words found in one message are one number,
and the weight of a set is computed once, however many messages have the same. `memory.recall.ranking` decides which
candidates to read, and how well they answer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from memory.recall.query import Question

NEIGHBOURS = ((1, 0.6), (2, 0.45), (3, 0.3))
"""How much a term counts that occurs so many messages before or after."""
NEIGHBOURS_SHARE = 0.5
"""How much all neighbours together count compared with the message's own words."""
AGAIN = 0.5
"""The share of that which counts if the term also occurs nearer."""


class _WeightSums(dict[int, float]):
    """The sum of weights of each set of words, computed at its first use."""

    def __init__(self, worth: tuple[float, ...]) -> None:
        super().__init__()
        self._worth = worth

    def __missing__(self, words: int) -> float:
        total = self[words] = sum([worth for at, worth in enumerate(self._worth) if words >> at & 1])
        return total


@dataclass(frozen=True, slots=True)
class Matches:
    """The words of a question found at each seq (`at`), and the weight of each word, highest for rare ones."""

    at: Mapping[int, int]
    worth: tuple[float, ...]
    _sums: _WeightSums = field(init=False, compare=False, repr=False)
    _near: dict[int, float] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Compute the weight of each set of words when it is first needed: many messages have the same."""
        object.__setattr__(self, "_sums", _WeightSums(self.worth))

    def total(self, words: int) -> float:
        """The sum of the weights of these words."""
        return self._sums[words]

    def around(self, seq: int, own: int) -> tuple[float, int]:
        """The weight that neighbours add to message `seq`, which has the words `own`; and all words of both."""
        at, totals, added = self.at.get, self._sums, 0.0
        for step, share in NEIGHBOURS:
            if there := at(seq - step, 0) | at(seq + step, 0):
                again = there & own
                added += share * (totals[there ^ again] + AGAIN * totals[again] if again else totals[there])
                own |= there
        return added, own

    def near(self, seq: int) -> float:
        """The weight of the words in message `seq` and around it, computed once."""
        known = self._near.get(seq)
        if known is None:
            own = self.at.get(seq, 0)
            known = self._near[seq] = self.total(own) + NEIGHBOURS_SHARE * self.around(seq, own)[0]
        return known


def weigh(question: Question, seqs: Sequence[Sequence[int]], most: int, last_seq: int) -> Matches:
    """Collect the matches of each word, of which at most `most` were read, and weight the words by estimated rarity."""
    worth = tuple(
        word.weight * _rarity(_spread(found, most, last_seq), last_seq)
        for word, found in zip(question.words, seqs, strict=True)
    )
    return Matches(_placed({}, ((1 << at, found) for at, found in enumerate(seqs))), worth)


def words_to_combine(matches: Matches, is_cut: Sequence[bool]) -> list[tuple[int, ...]]:
    """Return which words to look up together because each by itself is too common to be read completely.

    These are the two rarest. Empty if a word that was read completely occurs anywhere, or if fewer than two
    are too common.
    """
    common = sorted((at for at, cut in enumerate(is_cut) if cut), key=lambda at: -matches.worth[at])
    if len(common) < 2:
        return []
    rare = sum([1 << at for at, cut in enumerate(is_cut) if not cut])
    if any(words & rare for words in set(matches.at.values())):
        return []
    return [tuple(common[:2])]


def with_places(
    matches: Matches, together: Sequence[tuple[int, ...]], seqs: Sequence[Sequence[int]]
) -> Matches:
    """Add to `matches` where the words that were looked up together occur."""
    words = (sum([1 << at for at in ats]) for ats in together)
    return Matches(_placed(matches.at, zip(words, seqs, strict=True)), matches.worth)


def promising_seqs(matches: Matches, shown: frozenset[int], most: int) -> list[int]:
    """Return the seqs of the messages that may be worth reading, best first: at most `most`, none of them `shown`."""
    having: dict[int, list[int]] = defaultdict(list)
    for seq, words in matches.at.items():
        having[words].append(seq)
    first: list[int] = []
    for words in sorted(having, key=matches.total, reverse=True):
        first += sorted(having[words], reverse=True)[: most - len(first)]
        if len(first) == most:
            break
    beside = {seq + step for seq in first[: most // 4] for step in (-2, -1, 1, 2, 3)}
    around = {*first, *beside} - shown
    ranked = sorted([(matches.near(seq), seq) for seq in around if seq > 0], reverse=True)
    return [seq for _, seq in ranked[:most]]


def _placed(at: Mapping[int, int], found: Iterable[tuple[int, Sequence[int]]]) -> dict[int, int]:
    """Return `at` with these words added at these seqs."""
    placed = dict(at)
    for words, seqs in found:
        for seq in seqs:
            placed[seq] = placed.get(seq, 0) | words
    return placed


def _spread(found: Sequence[int], most: int, last_seq: int) -> float:
    """Estimate how many messages contain a word, from how dense the matches are that were read.

    PostgreSQL may have read matches from several places, so the widest gaps are ignored.
    """
    if len(found) < most:
        return float(len(found))
    places = sorted(found)
    gaps = sorted([after - before for before, after in pairwise(places)])
    kept = gaps[: max(1, len(gaps) * 9 // 10)]
    return last_seq * len(kept) / sum(kept)


def _rarity(messages: float, last_seq: int) -> float:
    """Weight a term by its rarity: close to zero if every second message has it, but never zero."""
    return math.log(1 + max(0.5, last_seq - messages + 0.5) / (messages + 0.5))
