"""Which passages of earlier messages a question is about: messages → passages, best first. Pure, without a switch.

A short message is one passage, a long one several: long replies mention much and say it in one place. A passage counts
by its own terms, by those of the rest of its message, and by those of the messages around it (`memory.finds`), so that
an answer is found by its question and the other way round. What is shown of them is decided in `memory.recalling`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memory.finds import AGAIN, Finds
from memory.questions import Question

ELSEWHERE = 0.5
"""How much a term counts that stands in another passage of the same message."""
PAIR = 0.2
"""What two terms of the question that stand side by side here, too, add of their weights."""
LEAN = 0.3
"""How much the place in the chat counts where a question asks for the first or the last time."""
WHOLE_TOKENS = 150
"""A message of up to so many tokens is one passage, whatever the index says, and shown whole."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """A message as the index holds it: hashed terms, a line a passage."""

    seq: int
    is_user: bool
    tokens: int
    passages: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A passage (None: the message as a whole) and how well it answers."""

    score: float
    message: Indexed
    passage: int | None = None
    words: int = 0
    """The question's words in it and around it, as bits."""

    @property
    def tokens(self) -> int:
        """About how many are shown."""
        share = 1 if self.passage is None else len(self.message.passages)
        return self.message.tokens // share

    @property
    def says(self) -> tuple[int, str]:
        """The same for two that say the same to the question, in surroundings that do."""
        passages = self.message.passages
        return self.words, "\n".join(passages) if self.passage is None else passages[self.passage]


class _Piece(NamedTuple):
    """A passage of a message, the question's words in it, and those in the message's other passages."""

    text: str
    own: int
    others: int


@dataclass(frozen=True, slots=True)
class _Words:
    """A question's words and pairs of words as bits, with what is looked for in a passage."""

    tokens: tuple[tuple[int, str], ...]
    pairs: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, question: Question) -> _Words:
        words = [word.token for word in question.words]
        pairs = tuple((1 << a | 1 << b, f"{words[a]} {words[b]}") for a, b in question.pairs)
        return cls(tuple((1 << at, token) for at, token in enumerate(words)), pairs)


def rank(question: Question, finds: Finds, messages: Iterable[Indexed], last_seq: int) -> list[Ranked]:
    """The passages of `messages` that answer at all, best first; of two alike, the newer."""
    words = _Words.of(question)
    return best_first(
        one
        for message in messages
        for one in _passages(words, finds, message, _leaning(question.lean, message.seq, last_seq))
        if one.score > 0
    )


def best_first(ranked: Iterable[Ranked]) -> list[Ranked]:
    """Those of `ranked`, best first; of two alike, the newer."""
    return sorted(ranked, key=lambda one: (-one.score, -one.message.seq))


def unranked(message: Indexed) -> Ranked:
    """The beginning of a message that was found in another way than by words."""
    return Ranked(0.0, message, None if _is_whole(message) else 0)


def alone(question: Question, worth: Sequence[float], message: Indexed) -> tuple[float, int]:
    """How well a message answers by itself, and its passage that does so best (by number)."""
    words, finds = _Words.of(question), Finds({}, tuple(worth))
    scores = [_score(words, finds, piece) for piece in _pieces(words, message.passages)]
    best = max(scores)
    return best, scores.index(best)


def _is_whole(message: Indexed) -> bool:
    return message.tokens <= WHOLE_TOKENS or len(message.passages) == 1


def _passages(words: _Words, finds: Finds, message: Indexed, lean: float) -> Iterator[Ranked]:
    whole = _is_whole(message)
    pieces = _pieces(words, ("\n".join(message.passages),) if whole else message.passages)
    added, having = finds.around(message.seq, pieces[0].own | pieces[0].others)
    for number, piece in enumerate(pieces):
        score = lean * (_score(words, finds, piece) + added)
        yield Ranked(score, message, None if whole else number, having)


def _score(words: _Words, finds: Finds, piece: _Piece) -> float:
    """What the terms of a passage are worth, with those that the rest of its message has."""
    text, own, others = piece
    score = finds.total(own) + ELSEWHERE * (finds.total(others & ~own) + AGAIN * finds.total(others & own))
    for pair, beside in words.pairs:
        if pair & own == pair and beside in text:
            score += PAIR * finds.total(pair) / 2
    return score


def _pieces(words: _Words, passages: Sequence[str]) -> list[_Piece]:
    there = [_in(words, passage) for passage in passages]
    once = twice = 0
    for own in there:
        twice |= once & own
        once |= own
    return [
        _Piece(passage, own, once & ~own | twice & own) for passage, own in zip(passages, there, strict=True)
    ]


def _in(words: _Words, passage: str) -> int:
    return sum([bit for bit, token in words.tokens if token in passage])


def _leaning(lean: int, seq: int, last_seq: int) -> float:
    if not lean:
        return 1.0
    place = seq / max(1, last_seq)
    return 1.0 + LEAN * (place if lean > 0 else 1 - place)
