"""Returns memory: runs a full garbage collection after a number of bytes in requests and responses.

DRF's requests, views and serializers form reference cycles, which hold the bodies of requests and responses. Python
collects cycles by the number of objects, not by their size, so a hundred texts of a megabyte do not trigger a
collection.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

EVERY_BYTES = 16 * 1024 * 1024

_M_MMAP_THRESHOLD = -3
LARGE_BLOCK_BYTES = 128 * 1024

_bytes = 0


def return_large_blocks() -> None:
    """Make glibc return a large block to the system as soon as it is freed; other C libraries do anyway.

    After the first block of megabytes was freed, glibc would put all that are smaller into its heap, whose holes stay
    with the process: 100 MB after a few images of 20 MB (measured).
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def freeze_existing() -> None:
    """Exclude all existing objects from later collections: they are permanent, and examining them would take 0.1 s."""
    gc.collect()
    gc.freeze()


def count_bytes(count: int) -> None:
    """Record that `count` more bytes were held. Call it only in the thread of the event loop."""
    global _bytes  # one per process
    _bytes += count
    if _bytes > EVERY_BYTES:
        _bytes = 0
        gc.collect()
