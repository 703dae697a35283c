"""Which earlier turns a question is about: messages → turns, best first. Pure, and the same for every chat.

Where terms stand alone is weighed in `memory.finds`: a message counts there with its neighbours, so that an answer is
found by its question and the other way round. Here the best of those are ranked by their own terms: the user's side and
the best passage of each side, because long replies mention much and say it in one place. What is shown of a turn is
decided in `memory.recalling`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from memory.finds import Finds
from memory.questions import Question

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
        said = [side.message.passages[number].split() for side in self.sides for number in side.best]
        return frozenset().union(*said)


@dataclass(frozen=True, slots=True)
class _Words:
    """A question's words and pairs of words as bits, with what is looked for in a passage."""

    tokens: tuple[tuple[int, str], ...]
    pairs: tuple[tuple[int, str], ...]
    lean: int

    @classmethod
    def of(cls, question: Question) -> _Words:
        words = [word.token for word in question.words]
        pairs = tuple((1 << a | 1 << b, f"{words[a]} {words[b]}") for a, b in question.pairs)
        return cls(tuple((1 << at, token) for at, token in enumerate(words)), pairs, question.lean)


def rank(
    question: Question, finds: Finds, messages: Mapping[int, Indexed], seqs: Collection[int], last_seq: int
) -> list[Ranked]:
    """The turns of the messages `seqs`, best first. `messages` are those and their neighbours."""
    wanted = set(seqs)
    turns = [turn for turn in _turns(messages) if any(message.seq in wanted for message in turn)]
    words = _Words.of(question)
    ranked = [_rank(words, finds, turn, last_seq) for turn in turns]
    ranked.sort(key=lambda one: (-one.score, -one.from_seq))
    return [one for one in ranked if one.score > 0]


def unranked(messages: Mapping[int, Indexed]) -> list[Ranked]:
    """The turns of `messages`, which were found in another way than by words: the beginning of each side speaks."""
    return [
        Ranked(
            0.0, tuple(Side(message, tuple(range(len(message.passages[:MOST_PASSAGES])))) for message in turn)
        )
        for turn in _turns(messages)
    ]


def alone(question: Question, worth: Sequence[float], message: Indexed) -> tuple[float, int]:
    """How well a message answers by itself, and its passage that does so best (by number)."""
    ranked = _rank(_Words.of(question), Finds({}, tuple(worth)), (message,), message.seq)
    return ranked.score, ranked.sides[0].best[0]


def is_same(one: Ranked, other: Ranked) -> bool:
    """Whether two turns say nearly the same."""
    fewer, more = sorted((len(one.words), len(other.words)))
    return fewer * 10 >= 9 * more and len(one.words & other.words) * 10 >= 9 * more


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


def _rank(words: _Words, finds: Finds, turn: tuple[Indexed, ...], last_seq: int) -> Ranked:
    sides: list[Side] = []
    shown = elsewhere = length = 0
    for message in turn:
        side, best, others = _side(words, finds, message)
        sides.append(side)
        shown |= best
        elsewhere |= others
        length += sum([message.passages[number].count(" ") + 1 for number in side.best])
    elsewhere &= ~shown
    near = finds.between(turn[0].seq - 2, turn[-1].seq + 2) & ~(shown | elsewhere)
    score = finds.total(shown) + ELSEWHERE * finds.total(elsewhere) + NEAR * finds.total(near)
    if beside := [(pair, text) for pair, text in words.pairs if pair & shown == pair]:
        score += sum([_pairs(beside, finds, side) for side in sides])
    score /= 1 - LENGTH + LENGTH * max(1.0, length / USUAL_TERMS)
    return Ranked(score * _leaning(words.lean, turn[0].seq, last_seq), tuple(sides))


def _side(words: _Words, finds: Finds, message: Indexed) -> tuple[Side, int, int]:
    """The passages of a message that bring the most; the words in them, and those in its others."""
    brings = [sum([bit for bit, token in words.tokens if token in passage]) for passage in message.passages]
    best: list[int] = []
    shown = 0
    for _ in range(min(MOST_PASSAGES, len(brings))):
        new = [finds.total(there & ~shown) for there in brings]
        most = max(new)
        if not most:
            break
        best.append(new.index(most))
        shown |= brings[best[-1]]
    others = 0
    for there in brings:
        others |= there
    return Side(message, tuple(best) or (0,)), shown, others


def _pairs(pairs: Sequence[tuple[int, str]], finds: Finds, side: Side) -> float:
    """What those of `pairs` add that stand side by side in what is shown of a message."""
    shown = "\n".join([side.message.passages[number] for number in side.best])
    return sum([PAIR * finds.total(pair) / 2 for pair, text in pairs if text in shown])


def _leaning(lean: int, seq: int, last_seq: int) -> float:
    if not lean:
        return 1.0
    place = seq / max(1, last_seq)
    return 1.0 + LEAN * (place if lean > 0 else 1 - place)
