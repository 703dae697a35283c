"""Whatever connections do to a process, other users' calls to it stay as quick (P30): 50 ms at most, p95."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest

from tests.api.talking import begin_reply
from tests.faults.bench.nuisance import KINDS
from tests.faults.bench.resident import MOST, resident
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.processes import ROOT, Product

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SLICES = 4
SLICE_SECONDS = 0.8
"""Measurements with and without the nuisance alternate, so that other load affects both alike."""
TRIES = 3
"""The quickest try counts: delays from other load on the machine are not caused by the connections."""
READERS = 1000
READING_SECONDS = 8.0


def most(alone: float) -> float:
    """Return the seconds that a call may take beside a nuisance, if it takes `alone` without it."""
    return alone + max(0.050, alone)


def measure(client: Client, seconds: float = SLICE_SECONDS) -> list[float]:
    """Make calls one after another and return how long each took, in seconds."""
    taken: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        assert client.get("chats").status_code == 200
        taken.append(time.perf_counter() - began)
    return taken


def p95(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.95)]


@contextmanager
def running(script: str, ready: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script of the bench, from the line that it prints when it is at work to its end."""
    command = [sys.executable, "-m", f"tests.faults.bench.{script}", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == f"{ready}\n"
            yield process
        finally:
            process.kill()


@pytest.mark.promise("P30")
@pytest.mark.parametrize("what", KINDS)
def test_connections_without_a_login(offline_product: Product, what: str) -> None:
    server = offline_product.server(LOG_LEVEL="WARNING")
    bob = offline_product.client("bob")
    measure(bob)
    held = resident(server.process.pid)
    where = urlsplit(offline_product.url)
    for _ in range(TRIES):
        alone, beside = list[float](), list[float]()
        for _ in range(SLICES):
            alone += measure(bob)
            with running("nuisance", "begun", str(where.hostname), str(where.port), what) as nuisance:
                beside += measure(bob)
                assert nuisance.poll() is None, "it gave up"
        print(f"{what}: others' p95 {p95(alone) * 1000:.0f} → {p95(beside) * 1000:.0f} ms")
        if p95(beside) <= most(p95(alone)):
            break
    assert p95(beside) <= most(p95(alone))
    assert resident(server.process.pid) < held + MOST


@pytest.mark.promise("P30")
@pytest.mark.parametrize("where", ["another process", "the process that writes it"])
def test_a_thousand_readers_of_one_reply(product: Product, fake: FakeUpstream, where: str) -> None:
    for _ in range(2):
        product.server(LOG_LEVEL="INFO")
    writer, other = product.urls.values()
    read_at = other if where == "another process" else writer
    alice, bob = product.client("alice"), product.client("bob")
    alice.http.base_url, bob.http.base_url = httpx.URL(writer), httpx.URL(read_at)
    fake.behave("normal", deltas=5000, rate=20.0)
    turn = begin_reply(alice)
    before = p95(measure(bob, READING_SECONDS))
    stream = f"{read_at}/v1/{turn.path}/stream"
    with running("crowd", "open", stream, alice.token, str(READERS)) as readers:
        beside = p95(measure(bob, READING_SECONDS))
        assert alice.post(f"{turn.path}/cancel").status_code == 200
        assert readers.stdout is not None
        assert int(readers.stdout.readline()) == READERS, "each of them read to the end"
    alone = max(before, p95(measure(bob, READING_SECONDS)))  # the machine may be busier by now
    print(f"{where}: others' p95 {alone * 1000:.0f} ms without, {beside * 1000:.0f} ms beside")
    assert beside <= most(alone)
