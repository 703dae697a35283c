"""Which excerpts of earlier messages a plan shows: the best that fit, none of a turn that is there word for word.

Excerpts of one day that follow each other stand under one line with the day: so the second costs less than it would
alone. Pure, from costs and seqs. How much room there is for them is decided in `memory.context.planner`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import chain

from memory.history.turns import Turn
from memory.recall.excerpts import DAY, MARK, Excerpt, Quote, excerpts_head_cost


class Picking:
    """The excerpts that are shown so far, of those that were found, best first. Each is of one message."""

    def __init__(self, found: Sequence[Excerpt]) -> None:
        self._found = found
        self.taken: list[Excerpt] = []
        self._seqs: list[int] = []
        """Of the messages that are quoted, in order."""
        self._days: dict[int, str] = {}
        self.cost = 0
        """Tokens of the message that carries them; 0 without any."""

    @property
    def quotes(self) -> tuple[tuple[Quote, ...], ...]:
        """What is quoted, in order: a tuple for those of one day that no other day comes between."""
        runs: list[list[Quote]] = []
        found = chain.from_iterable(excerpt.quotes for excerpt in self.taken)
        for quote in sorted(found, key=lambda quote: (quote.seq, quote.start)):
            last = runs[-1][-1] if runs else None
            if last is None or self._days[last.seq] != self._days[quote.seq]:
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
        if excerpt.seq not in self._days:
            insort(self._seqs, excerpt.seq)
            self._days[excerpt.seq] = excerpt.on

    def _more(self, excerpt: Excerpt) -> int:
        """What it adds: its day is that of what stands before or after it; between two of another day, these part."""
        if excerpt.seq in self._days:
            return excerpt.tokens - DAY - MARK
        head = 0 if self._seqs else excerpts_head_cost()
        at = bisect_left(self._seqs, excerpt.seq)
        around = [self._days[seq] for seq in self._seqs[max(0, at - 1) : at + 1]]
        if excerpt.on in around:
            return head + excerpt.tokens - DAY
        parted = DAY if len(around) == 2 and around[0] == around[1] else 0
        return head + excerpt.tokens + parted


def _is_in(excerpt: Excerpt, turns: Sequence[Turn]) -> bool:
    """Whether `excerpt` is of one of `turns`."""
    return any(turn.from_seq <= excerpt.seq <= turn.through_seq for turn in turns)
