"""How alike vectors are to one, exactly, and how near that makes them. Pure.

Vectors are bytes: little-endian 32-bit floats of length one (`chatmemory.llm.vectors`), so that their
product tells how alike they are.
"""

from __future__ import annotations

from collections.abc import Sequence

SAME = 1e-6
"""Products that differ by less do so by the rounding of their numbers."""


def products(one: bytes, vectors: Sequence[bytes]) -> list[float]:
    """How alike each of `vectors` is to `one`, in their order: -1 to 1. All are of one length."""
    if not vectors:
        return []
    import numpy  # here, because it takes 0.1 s and 15 MB of a process, and most never compare vectors

    to = numpy.frombuffer(one, dtype="<f4")
    rows = numpy.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), len(to))
    found: list[float] = (rows @ to).tolist()
    return found


def nearness(best: Sequence[float], usual: float) -> list[float]:
    """The greatest products as shares, greatest first: 1 for the first, 0 for a `usual` one. Lesser ones are left out.

    Models differ in how alike they find what has nothing in common, so a product says little by itself.
    """
    if not best or best[0] <= 0:
        return []
    span = best[0] - usual
    if span < SAME:
        return [1.0] * len(best)
    return [(product - usual) / span for product in best if product > usual]
