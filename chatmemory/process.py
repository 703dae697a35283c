"""This process's name: who owns a lease. Unique over machines, restarts and reused process ids."""

from __future__ import annotations

import os
import secrets
import socket

_named: tuple[int, str] | None = None


def name() -> str:
    """`host:pid:random`, the same as long as this process lives; another after a fork."""
    global _named  # one name a process
    if _named is None or _named[0] != os.getpid():
        _named = (os.getpid(), f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(4)}")
    return _named[1]
