"""How long calls take, and how much longer they may take during another user's load (P30)."""

from __future__ import annotations

import time

from tests.support.live_server import Client

SLICES = 8
SLICE_SECONDS = 0.8
"""Seconds of each measurement. Those with and without the load alternate, so that other load affects both alike."""
SLOWER = 0.050
"""Seconds that others may wait longer at the 95th percentile (P30), or as much again as without the load."""
TRIES = 3
"""The quickest try counts: delays from other load on the machine are not caused by the connections."""


def most(alone: float) -> float:
    """Return the seconds that a call may take under load, if it takes `alone` without it."""
    return alone + max(SLOWER, alone)


def measure(client: Client) -> list[float]:
    """Make calls one after another and return how long each took, in seconds."""
    taken: list[float] = []
    until = time.monotonic() + SLICE_SECONDS
    while time.monotonic() < until:
        began = time.perf_counter()
        assert client.get("chats").status_code == 200
        taken.append(time.perf_counter() - began)
    return taken


def p95(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.95)]
