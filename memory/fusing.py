"""Two ways of finding, one order: reciprocal rank fusion. Pure; what the items are is not known here.

What each way thinks of an item counts by its rank alone, so that scores of different kinds need no common measure.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

DAMPING = 60
"""The usual constant of the method: how little the first few ranks differ from the next."""


def fuse(*ranked: Sequence[T]) -> list[T]:
    """The items of all lists, best first. What two lists have is better than what one has at the same rank.

    An item counts once a list, at its first place. Of two that come out alike, the one that ranks higher in the first
    list that has either comes first.
    """
    scores: dict[T, float] = {}
    for items in ranked:
        for rank, item in enumerate(dict.fromkeys(items), start=1):
            scores[item] = scores.get(item, 0.0) + 1 / (DAMPING + rank)
    return sorted(scores, key=lambda item: -scores[item])
