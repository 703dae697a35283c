"""Two ways of finding, one order: what has a question's words, and what is near to it in meaning. Pure.

What is best by its words counts as one, what is nearest as `WEIGHT`, and what has both as both together: so scores of
different kinds need no common measure. It finds more than reciprocal ranks, which know the order alone
(`docs/recall.md`). What is near counts by who said it, as words do, but not by its length: a vector has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from memory.ranking import FURTHER, Lengths, Ranked, best_first

WEIGHT = 0.8


class Near(NamedTuple):
    """A message that is near to a question in meaning: 1 is the nearest of its chat, 0 one like any other there."""

    seq: int
    nearness: float


def fuse(ranked: Sequence[Ranked], near: Iterable[Near], lengths: Lengths) -> list[Ranked]:
    """`ranked` (at least one passage of each message that is near) by words and meaning together, best first."""
    best = max([one.score for one in ranked], default=0.0) or 1.0
    meant = _meant(ranked, dict(near), lengths)
    further = Counter[int]()
    fused = []
    for one in best_first(ranked):
        seq = one.message.seq
        fused.append(replace(one, score=one.score / best + WEIGHT * meant[seq] * FURTHER ** further[seq]))
        further[seq] += 1
    return best_first(fused)


def _meant(ranked: Iterable[Ranked], near: Mapping[int, float], lengths: Lengths) -> dict[int, float]:
    """By seq: how near each message is, weighed by its side; 1 for the greatest, 0 for those that are not near."""
    meant = {
        one.message.seq: near.get(one.message.seq, 0.0) * lengths.side(one.message.is_user) for one in ranked
    }
    most = max(meant.values(), default=0.0) or 1.0
    return {seq: weighed / most for seq, weighed in meant.items()}
