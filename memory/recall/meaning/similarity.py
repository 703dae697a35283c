"""Compute how similar vectors are to one vector, exactly, and how near that makes them. Pure.

Vectors are bytes: little-endian 32-bit floats of length one (`chatmemory.llm.vectors`), so their dot product is their
similarity.
"""

from __future__ import annotations

from collections.abc import Sequence

SAME = 1e-6
"""Products that differ by less are equal except for rounding."""


def products(one: bytes, vectors: Sequence[bytes]) -> list[float]:
    """The similarity of each of `vectors` to `one`, in order: -1 to 1. All have the same number of dimensions."""
    if not vectors:
        return []
    import numpy  # here, because it takes 0.1 s and 15 MB of a process, and most never compare vectors

    to = numpy.frombuffer(one, dtype="<f4")
    rows = numpy.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), len(to))
    found: list[float] = (rows @ to).tolist()
    return found


def nearness(best: Sequence[float], usual: float) -> list[float]:
    """Scale the greatest products, sorted greatest first: 1 for the first, 0 for a `usual` one. Omit lesser ones.

    Models differ in how similar they rate unrelated texts, so a product says little by itself.
    """
    if not best or best[0] <= 0:
        return []
    span = best[0] - usual
    if span < SAME:
        return [1.0] * len(best)
    return [(product - usual) / span for product in best if product > usual]
