"""Two ways of finding, one order: what has a question's words, and what is near to it in meaning. Pure.

What is best by its words counts as one, what is nearest as `WEIGHT`, and what has both as both together: so scores of
different kinds need no common measure. It finds more than reciprocal ranks, which know the order alone
(`docs/recall.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from memory.ranking import Ranked, best_first

WEIGHT = 0.8


class Near(NamedTuple):
    """A message that is near to a question in meaning: 1 is the nearest of its chat, 0 one like any other there."""

    seq: int
    nearness: float


def fuse(ranked: Sequence[Ranked], near: Iterable[Near]) -> list[Ranked]:
    """`ranked` (at least one passage of each message that is near) by words and meaning together, best first."""
    best = max([one.score for one in ranked], default=0.0) or 1.0
    meant = dict(near)
    return best_first(
        replace(one, score=one.score / best + WEIGHT * meant.get(one.message.seq, 0.0)) for one in ranked
    )
