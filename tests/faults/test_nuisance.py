"""Unauthenticated connections that cost a process all they can do not slow down other users' calls to it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from tests.faults.bench.delays import SLICES, TRIES, measure, most, p95
from tests.faults.bench.nuisance import KINDS
from tests.faults.bench.resident import MOST, resident
from tests.support.live_server import Client
from tests.support.processes import ROOT, Product

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.mark.promise("P30")
@pytest.mark.parametrize("what", KINDS)
def test_others_are_served_as_quickly(offline_product: Product, what: str) -> None:
    server = offline_product.server(LOG_LEVEL="WARNING")
    bob = offline_product.client("bob")
    measure(bob)
    held = resident(server.process.pid)
    for _ in range(TRIES):
        alone, beside = by_turns(bob, offline_product.url, what)
        if beside <= most(alone):
            break
    assert beside <= most(alone)
    assert resident(server.process.pid) < held + MOST


def by_turns(client: Client, url: str, what: str) -> tuple[float, float]:
    """Return the 95th percentile of a call's seconds, without the nuisance and during it."""
    alone, beside = list[float](), list[float]()
    for _ in range(SLICES // 2):
        alone += measure(client)
        with nuisance(url, what):
            beside += measure(client)
    return p95(alone), p95(beside)


@contextmanager
def nuisance(url: str, what: str) -> Iterator[None]:
    """Run the nuisance."""
    where = urlsplit(url)
    command = [
        sys.executable,
        "-m",
        "tests.faults.bench.nuisance",
        str(where.hostname),
        str(where.port),
        what,
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            assert running.stdout.readline() == "begun\n"
            yield
            assert running.poll() is None, "it gave up"
        finally:
            running.kill()
