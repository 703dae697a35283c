"""Plain BM25 over a chat, the baseline for a prompt: over the user's messages, or over pieces of all messages.

Words come from memory's own analysis, so that both sides read languages and numbers alike. Each text costs its tokens
plus four, as a message of its own would; markers and headings cost nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

from benchmarks.recall.sets import Message

OVERHEAD = 4
K1, B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class Unit:
    """A text that is shown whole or not at all."""

    text: str
    tokens: int
    terms: Counter[str]
    at: int
    """The number of its message."""


class Ranking:
    """Texts ranked by BM25."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = units
        self._length = [sum(unit.terms.values()) for unit in units]
        self._usual = (sum(self._length) / len(units) or 1.0) if units else 1.0
        self._having: dict[str, list[int]] = {}
        for at, unit in enumerate(units):
            for term in unit.terms:
                self._having.setdefault(term, []).append(at)

    def shown(self, terms: Iterable[str], room: int, before: int | None = None) -> list[str]:
        """Return the best texts for these terms that fit into `room` tokens; ties go to the newest.

        Only those of messages `before` that number, if one is given.
        """
        scores: dict[int, float] = {}
        said = len(self.units) if before is None else bisect_left(self.units, before, key=lambda one: one.at)
        for term in set(terms):
            everywhere = self._having.get(term, [])
            having = everywhere[: bisect_left(everywhere, said)]
            rarity = log(1 + (said - len(having) + 0.5) / (len(having) + 0.5))
            for at in having:
                times = self.units[at].terms[term]
                length = 1 - B + B * self._length[at] / self._usual
                scores[at] = scores.get(at, 0.0) + rarity * times * (K1 + 1) / (times + K1 * length)
        return list(self._fitting(sorted(scores, key=lambda at: (-scores[at], -at)), room))

    def _fitting(self, best: Iterable[int], room: int) -> Iterable[str]:
        for at in best:
            if (cost := self.units[at].tokens + OVERHEAD) <= room:
                room -= cost
                yield self.units[at].text


def users_messages(messages: Sequence[Message]) -> Ranking:
    """Rank the user's messages, each as a whole."""
    return Ranking([_unit(one.text, at) for at, one in enumerate(messages) if one.role == "user"])


def chunks(messages: Sequence[Message]) -> Ranking:
    """Rank all messages, in pieces of about 100 tokens."""
    from memory.recall.terms import split_text

    pieces = ((at, one.text[start:end]) for at, one in enumerate(messages) for start, end in split_text(one.text, 400))
    return Ranking([_unit(text, at) for at, text in pieces])


def _unit(text: str, at: int) -> Unit:
    from chatmemory.text.tokens import count_tokens
    from memory.recall.terms import terms

    return Unit(text, count_tokens(text), Counter(terms(text)), at)
