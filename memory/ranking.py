"""Which earlier turns a question is about: finds in an index → turns, best first. Pure, and the same for every chat.

First by where its terms stand alone: a message counts with its neighbours, so that an answer is found by its question
and the other way round. Then the best of those by their own terms: the user's side and the best passage of each side,
because long replies mention much and say it in one place. What is shown of a turn is decided in `memory.recalling`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from memory.questions import Question

NEIGHBOURS = ((1, 0.7), (-1, 0.7), (2, 0.35), (-2, 0.35), (3, 0.25), (-3, 0.25))
"""How much a term counts that stands so many messages away."""
ELSEWHERE = 0.4
"""How much a term counts that stands in another passage of the same message."""
NEAR = 0.5
"""How much a term counts that stands in the turn before or after."""
PAIR = 0.4
"""What two terms of the question that stand side by side here, too, add of their weights."""
LEAN = 0.3
"""How much the place in the chat counts where a question asks for the first or the last time."""
LENGTH = 0.1
"""How much a turn longer than others counts for less."""
USUAL_TERMS = 40
MOST_PASSAGES = 2
"""Passages of a message that are shown."""


@dataclass(frozen=True, slots=True)
class Finds:
    """Where the words of a question stand, and how much each says: rare ones most."""

    places: tuple[frozenset[int], ...]
    worth: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Indexed:
    """A message as the index holds it: hashed terms, a line a passage."""

    seq: int
    is_user: bool
    tokens: int
    passages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """What of a message speaks to the question: its passages, best first (by number), and what they bring together."""

    message: Indexed
    best: tuple[int, ...]


@dataclass(frozen=True)
class Ranked:
    """A turn and how well it answers. Either side may be missing."""

    score: float
    sides: tuple[Side, ...]

    @property
    def from_seq(self) -> int:
        return self.sides[0].message.seq

    @cached_property
    def words(self) -> frozenset[str]:
        """All it says, for comparing with others."""
        return frozenset(
            token
            for side in self.sides
            for number in side.best
            for token in side.message.passages[number].split()
        )


def weigh(question: Question, seqs: Sequence[Sequence[int]], most: int, last_seq: int) -> Finds:
    """The finds of each word (at most `most` of one were read), and the words' worth by how many there must be."""
    worth = tuple(
        word.weight * _rarity(_spread(found, most, last_seq), last_seq)
        for word, found in zip(question.words, seqs, strict=True)
    )
    return Finds(tuple(frozenset(found) for found in seqs), worth)


def said_together(finds: Finds, is_cut: Sequence[bool]) -> list[tuple[int, ...]]:
    """Which words to look up together, because none of them alone leads anywhere: all are too common to be read whole.

    The two that are rarest. Empty where a word is rare enough to go by.
    """
    if any(found and not cut for found, cut in zip(finds.places, is_cut, strict=True)):
        return []
    common = sorted((at for at, cut in enumerate(is_cut) if cut), key=lambda at: -finds.worth[at])
    return [tuple(common[:2])] if len(common) > 1 else []


def with_places(finds: Finds, together: Sequence[tuple[int, ...]], seqs: Sequence[Sequence[int]]) -> Finds:
    """`finds`, and where the words that were looked up together stand."""
    places = list(finds.places)
    for ats, found in zip(together, seqs, strict=True):
        for at in ats:
            places[at] = places[at].union(found)
    return Finds(tuple(places), finds.worth)


def shortlist(finds: Finds, shown: frozenset[int], most: int) -> list[int]:
    """Seqs of the messages to look at closely, best first, at most so many, none of them `shown`."""
    own: dict[int, float] = {}
    for found, worth in zip(finds.places, finds.worth, strict=True):
        for seq in found:
            own[seq] = own.get(seq, 0.0) + worth
    first = [seq for _, seq in sorted(zip(own.values(), own, strict=True), reverse=True)[: most + most // 2]]
    beside = {seq + step for seq in first[: most // 2] for step in (-1, 1, 2)}
    places = {*first, *beside} - shown
    total = sorted(((_with_neighbours(seq, finds), seq) for seq in places if seq > 0), reverse=True)
    return [seq for _, seq in total[:most]]


def rank(
    question: Question, finds: Finds, messages: Mapping[int, Indexed], seqs: Collection[int], last_seq: int
) -> list[Ranked]:
    """The turns of the messages `seqs`, best first. `messages` are those and their neighbours."""
    wanted = set(seqs)
    turns = [turn for turn in _turns(messages) if any(message.seq in wanted for message in turn)]
    ranked = [_rank(question, finds, turn, last_seq) for turn in turns]
    ranked.sort(key=lambda one: (-one.score, -one.from_seq))
    return [one for one in ranked if one.score > 0]


def alone(question: Question, worth: Sequence[float], message: Indexed) -> tuple[float, int]:
    """How well a message answers by itself, and its passage that does so best (by number)."""
    finds = Finds(tuple(frozenset() for _ in worth), tuple(worth))
    ranked = _rank(question, finds, (message,), message.seq)
    return ranked.score, ranked.sides[0].best[0]


def is_same(one: Ranked, other: Ranked) -> bool:
    """Whether two turns say nearly the same."""
    shared = len(one.words & other.words)
    return shared * 10 >= 9 * max(len(one.words), len(other.words))


def _with_neighbours(seq: int, finds: Finds) -> float:
    total = 0.0
    for found, worth in zip(finds.places, finds.worth, strict=True):
        if seq in found:
            total += worth
        elif worth:
            for step, share in NEIGHBOURS:
                if seq + step in found:
                    total += worth * share
                    break
    return total


def _spread(found: Sequence[int], most: int, last_seq: int) -> float:
    """In about how many messages a word stands, by how densely those lie that were read."""
    if len(found) < most:
        return float(len(found))
    return last_seq * len(found) / (max(found) - min(found) + 1)


def _rarity(messages: float, last_seq: int) -> float:
    """Nothing for what stands in every second message: that is how these people talk."""
    return max(0.0, math.log(max(0.5, last_seq - messages + 0.5) / (messages + 0.5)))


def _turns(messages: Mapping[int, Indexed]) -> list[tuple[Indexed, ...]]:
    """Questions with the reply that follows, and whatever stands alone."""
    turns: list[tuple[Indexed, ...]] = []
    for seq, message in messages.items():
        if message.is_user:
            reply = messages.get(seq + 1)
            turns.append((message, reply) if reply and not reply.is_user else (message,))
        else:
            question = messages.get(seq - 1)
            if question is None or not question.is_user:
                turns.append((message,))
    return turns


def _rank(question: Question, finds: Finds, turn: tuple[Indexed, ...], last_seq: int) -> Ranked:
    gains = [0.0] * len(question.words)
    sides = tuple(_side(question, finds, message, gains) for message in turn)
    near = range(turn[0].seq - 2, turn[-1].seq + 3)
    score = 0.0
    for at, worth in enumerate(finds.worth):
        if gains[at]:
            score += gains[at] * worth
        elif not finds.places[at].isdisjoint(near):
            score += NEAR * worth
    here = [pair for pair in question.pairs if gains[pair[0]] == gains[pair[1]] == 1.0]
    if here:
        score += sum([_pairs(here, question, finds, side) for side in sides])
    length = sum(_length(side) for side in sides)
    score /= 1 - LENGTH + LENGTH * max(1.0, length / USUAL_TERMS)
    return Ranked(score * _leaning(question, turn[0].seq, last_seq), sides)


def _side(question: Question, finds: Finds, message: Indexed, gains: list[float]) -> Side:
    """The passages of a message that bring the most, and into `gains` how much of each word they bring."""
    brings = [
        {at for at, word in enumerate(question.words) if word.token in passage}
        for passage in message.passages
    ]
    best: list[int] = []
    have: set[int] = set()
    for _ in range(min(MOST_PASSAGES, len(brings))):
        new = [sum([finds.worth[at] for at in words - have]) for words in brings]
        most = max(new)
        if not most:
            break
        best.append(new.index(most))
        have |= brings[best[-1]]
    for words in brings:
        for at in words:
            gains[at] = 1.0 if at in have else max(gains[at], ELSEWHERE)
    return Side(message, tuple(best) or (0,))


def _pairs(pairs: Sequence[tuple[int, int]], question: Question, finds: Finds, side: Side) -> float:
    """What those of `pairs` add that stand side by side in what is shown of a message."""
    shown = "\n".join([side.message.passages[number] for number in side.best])
    total = 0.0
    for first, second in pairs:
        if f"{question.words[first].token} {question.words[second].token}" in shown:
            total += PAIR * (finds.worth[first] + finds.worth[second]) / 2
    return total


def _length(side: Side) -> int:
    return sum(side.message.passages[number].count(" ") + 1 for number in side.best)


def _leaning(question: Question, seq: int, last_seq: int) -> float:
    if not question.lean:
        return 1.0
    place = seq / max(1, last_seq)
    return 1.0 + LEAN * (place if question.lean > 0 else 1 - place)
