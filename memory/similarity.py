"""Which vectors are nearest to one, exactly. Pure; with numpy where it is installed, without it slower.

Vectors are bytes: little-endian 32-bit floats of length one (`chatmemory.llm.embeddings`), so that their product tells
how alike they are. Whose they are is not known here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from heapq import nlargest
from operator import mul

try:
    import numpy
except ImportError:  # no dependency of ours
    numpy = None  # type: ignore[assignment]  # what else says that it is not there

HAS_NUMPY = numpy is not None
WORTH = 0.5
"""What is less than this share as near as the nearest is not near."""


def nearest(to: bytes, vectors: Sequence[bytes], most: int) -> list[int]:
    """Places in `vectors` of the ones nearest to `to`, the nearest first, at most so many. All are of one length."""
    if not vectors:
        return []
    return worth(_with_numpy(to, vectors) if HAS_NUMPY else _without(to, vectors), most)


def worth(products: Sequence[float], most: int) -> list[int]:
    """Places of the greatest of `products` that are worth anything beside the greatest, the greatest first."""
    best = nlargest(most, range(len(products)), key=products.__getitem__)
    return [at for at in best if products[at] > WORTH * products[best[0]] and products[at] > 0]


def _with_numpy(to: bytes, vectors: Sequence[bytes]) -> list[float]:
    one = numpy.frombuffer(to, dtype="<f4")
    rows = numpy.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), len(one))
    products: list[float] = (rows @ one).tolist()
    return products


def _without(to: bytes, vectors: Sequence[bytes]) -> list[float]:
    unpack = struct.Struct(f"<{len(to) // 4}f").unpack
    one = unpack(to)
    return [sum(map(mul, one, unpack(vector))) for vector in vectors]
