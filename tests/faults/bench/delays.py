"""How long calls take, and how much longer they may take beside somebody else's (P30)."""

from __future__ import annotations

import time

from tests.support.live_server import Client

SLICES = 8
SLICE_SECONDS = 0.8
"""With it and without it by turns, so that what the machine does besides meets both alike."""
SLOWER = 0.050
"""Seconds by which others may wait longer at the 95th percentile (P30); as long again, where all wait longer anyway."""
TRIES = 3
"""The quickest counts: what a machine with other work to do adds is not the connection's."""


def most(alone: float) -> float:
    """Seconds that a call may take beside it, if it takes so many without."""
    return alone + max(SLOWER, alone)


def measure(client: Client) -> list[float]:
    """What calls took, in seconds, one after the other."""
    taken: list[float] = []
    until = time.monotonic() + SLICE_SECONDS
    while time.monotonic() < until:
        began = time.perf_counter()
        assert client.get("chats").status_code == 200
        taken.append(time.perf_counter() - began)
    return taken


def p95(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.95)]
