"""Choose which excerpts of earlier messages a plan shows: the best that fit, none from a turn shown verbatim.

Consecutive excerpts of the same day share one line with the date, so the second costs less than it would by itself.
Pure: works on costs and seqs. `memory.context.plan.planner` decides how much room excerpts have.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import chain

from memory.history.turns import Turn
from memory.recall.excerpts import DAY, MARK, Excerpt, Quote, excerpts_head_cost


class ExcerptChoice:
    """The excerpts chosen so far from those found, which are ordered best first. Each is of one message."""

    def __init__(self, found: Sequence[Excerpt]) -> None:
        self._found = found
        self.taken: list[Excerpt] = []
        self._seqs: list[int] = []
        """Seqs of the quoted messages, sorted."""
        self._days: dict[int, str] = {}
        self.cost = 0
        """Tokens of the message that contains them; 0 if there are none."""

    @property
    def quotes(self) -> tuple[tuple[Quote, ...], ...]:
        """The quotes in order of position: one tuple for each run of quotes of the same day."""
        runs: list[list[Quote]] = []
        found = chain.from_iterable(excerpt.quotes for excerpt in self.taken)
        for quote in sorted(found, key=lambda quote: (quote.seq, quote.start)):
            last = runs[-1][-1] if runs else None
            if last is None or self._days[last.seq] != self._days[quote.seq]:
                runs.append([quote])
            elif quote.seq == last.seq and quote.start == last.end:
                runs[-1][-1] = last._replace(end=quote.end)
            else:
                runs[-1].append(quote)
        return tuple(map(tuple, runs))

    def fill(self, room: int, verbatim: Sequence[Turn]) -> None:
        """Take the best excerpts that are not of `verbatim`, as long as all together cost at most `room`."""
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
        """Tokens that `excerpt` adds.

        A further excerpt of a quoted message needs no date or mark, and one with a neighbour of the same day no date.
        One between two excerpts of another day adds a second date, because it separates them.
        """
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
