"""Which excerpts of earlier messages a plan shows: the best that fit, none of a turn that is there word for word.

Excerpts of messages that follow each other become one, under one day: so the second costs less than it would alone.
Pure, from costs and seqs. How much room there is for them is decided in `memory.context.planner`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from memory.history.turns import Turn
from memory.recall.excerpts import DAY, Excerpt, Quote, excerpts_head_cost


class Picking:
    """The excerpts that are shown so far, of those that were found, best first. Each is of one message."""

    def __init__(self, found: Sequence[Excerpt]) -> None:
        self._found = found
        self.taken: list[Excerpt] = []
        self._days: dict[int, str] = {}
        self.cost = 0
        """Tokens of the message that carries them; 0 without any."""

    @property
    def quotes(self) -> tuple[tuple[Quote, ...], ...]:
        """What is quoted, in order: a tuple for the messages of one day that follow each other."""
        runs: list[list[Quote]] = []
        found = chain.from_iterable(excerpt.quotes for excerpt in self.taken)
        for quote in sorted(found, key=lambda quote: (quote.seq, quote.start)):
            last = runs[-1][-1] if runs else None
            if last is None or not self._is_beside(last.seq, quote.seq):
                runs.append([quote])
            elif quote.seq == last.seq and quote.start == last.end:
                runs[-1][-1] = last._replace(end=quote.end, updated_in=last.updated_in or quote.updated_in)
            else:
                runs[-1].append(quote)
        return tuple(map(tuple, runs))

    def fill(self, room: int, verbatim: Sequence[Turn]) -> None:
        """Take the best that are not of `verbatim`, as long as all together cost at most `room`."""
        for excerpt in self._found:
            if self.cost + self._more(excerpt) <= room and not _is_in(excerpt, verbatim):
                self._take(excerpt)

    def _take(self, excerpt: Excerpt) -> None:
        self.cost += self._more(excerpt)
        self.taken.append(excerpt)
        self._days[excerpt.seq] = excerpt.on

    def _more(self, excerpt: Excerpt) -> int:
        """What it adds: its day is that of the messages beside it, and where it lies between two, so is theirs."""
        days, seq, on = self._days, excerpt.seq, excerpt.on
        head = 0 if days else excerpts_head_cost()
        beside = 1 if seq in days else (days.get(seq - 1) == on) + (days.get(seq + 1) == on)
        return head + excerpt.tokens - DAY * beside

    def _is_beside(self, seq: int, other: int) -> bool:
        """Whether a message goes under the day of the one before."""
        return other <= seq + 1 and self._days[seq] == self._days[other]


def _is_in(excerpt: Excerpt, turns: Sequence[Turn]) -> bool:
    """Whether `excerpt` is of one of `turns`."""
    return any(turn.from_seq <= excerpt.seq <= turn.through_seq for turn in turns)
