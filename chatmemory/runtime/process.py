"""This process: its name, and giving freed memory back to the operating system.

The name owns leases; it is unique across machines, restarts and reused process ids.
"""

import ctypes
import gc
import os
import secrets
import socket
from contextlib import suppress

_name = ""


def name() -> str:
    """`host:pid:random`, the same for all threads of this process; a fork gets another."""
    return _name


def _rename() -> None:
    global _name
    _name = f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(4)}"


_rename()
os.register_at_fork(after_in_child=_rename)


EVERY_BYTES = 16 * 1024 * 1024
"""Bytes in requests and responses after which all garbage is collected and given back. DRF's requests, views and
serializers form reference cycles, which hold the bodies. Python collects cycles by the number of objects, not by their
size, so a hundred texts of a megabyte do not trigger a collection."""
_M_MMAP_THRESHOLD = -3
LARGE_BLOCK_BYTES = 128 * 1024

_bytes = 0


def settle() -> None:
    """Call this when everything is loaded, so that the process stays small.

    - What exists is permanent: it is excluded from later collections, which would take 0.1 s to examine it.
    - What loading left over goes back to the system: 4 MB (measured).
    - glibc returns a large block to the system as soon as it is freed; other C libraries do anyway. After the first
      block of megabytes was freed, it would put all that are smaller into its heap, whose holes stay with the process:
      100 MB after a few images of 20 MB (measured).
    """
    gc.collect()
    gc.freeze()
    _give_back()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def count_bytes(count: int) -> None:
    """Record that `count` more bytes were held. Call it only in the thread of the event loop."""
    global _bytes  # one per process
    _bytes += count
    if _bytes > EVERY_BYTES:
        _bytes = 0
        gc.collect()
        _give_back()


def _give_back() -> None:
    """Return free memory to the system. What is between blocks in use, glibc keeps: 90 MB of a history (measured)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
