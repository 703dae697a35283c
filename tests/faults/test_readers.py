"""A reply that a thousand clients read at once: other users' calls stay as quick, at either process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.api.talking import begun
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.processes import ROOT, Product

pytestmark = [pytest.mark.processes, pytest.mark.slow]

READERS = 1000
SECONDS = 8.0
"""Seconds of each measurement, without readers and with them."""
SLOWER = 0.050
"""Seconds that others may wait longer at the 95th percentile (P30), or as much again as without the load."""


@pytest.mark.promise("P30")
@pytest.mark.parametrize("where", ["another process", "the process that writes it"])
def test_others_are_served_as_quickly(product: Product, fake: FakeUpstream, where: str) -> None:
    for _ in range(2):
        product.server(LOG_LEVEL="INFO")
    writer, other = product.urls.values()
    read_at = other if where == "another process" else writer
    alice, bob = product.client("alice"), product.client("bob")
    alice.http.base_url, bob.http.base_url = httpx.URL(writer), httpx.URL(read_at)
    fake.behave("normal", deltas=5000, rate=20.0)
    turn = begun(alice)
    before = p95(bob)
    with crowd(f"{read_at}/v1/{turn.path}/stream", alice.token) as readers:
        beside = p95(bob)
        assert alice.post(f"{turn.path}/cancel").status_code == 200
        assert readers.stdout is not None
        assert int(readers.stdout.readline()) == READERS, "each of them read to the end"
    alone = max(before, p95(bob))  # the machine may be busier by now
    assert beside <= alone + max(SLOWER, alone)


@contextmanager
def crowd(url: str, token: str) -> Iterator[subprocess.Popen[str]]:
    """Start readers of that stream, and yield once all of them are reading."""
    command = [sys.executable, "-m", "tests.faults.bench.crowd", url, token, str(READERS)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as readers:
        assert readers.stdout is not None
        try:
            assert readers.stdout.readline() == "open\n"
            yield readers
        finally:
            readers.kill()


def p95(client: Client) -> float:
    """Return the 95th percentile of the seconds of successive calls."""
    taken: list[float] = []
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        began = time.perf_counter()
        assert client.get("chats").status_code == 200
        taken.append(time.perf_counter() - began)
    return sorted(taken)[int(len(taken) * 0.95)]
