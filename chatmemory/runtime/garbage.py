"""Full garbage collections in time: after so many bytes of requests and answers.

DRF's requests, views and serializers refer to themselves in circles, and hold what was sent and what was answered.
Python collects such by the number of objects, not by their size: a hundred texts of a megabyte are no reason to it.
"""

from __future__ import annotations

import gc

EVERY_BYTES = 16 * 1024 * 1024

_bytes = 0


def begin() -> None:
    """Leave all that is there out of all collections to come: it stays, and looking through it would take 0.1 s."""
    gc.collect()
    gc.freeze()


def add(count: int) -> None:
    """So many more bytes have been held. Only for the thread of the event loop."""
    global _bytes  # one a process
    _bytes += count
    if _bytes > EVERY_BYTES:
        _bytes = 0
        gc.collect()
