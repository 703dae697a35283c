"""An upstream that never ends: cut at its deadline or its cap, and the server's memory does not grow."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.api.talking import say
from tests.faults.bench.resident import MB, resident
from tests.support.exhaustive import effort
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined
from tests.support.processes import Product

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TOTAL, CAP = 0.4, 64 * 1024
SLACK = 1.0
AT_ONCE = 3
FLOOD = {"too_long", "upstream_timeout"}
"""The upstream sends as fast as it can: whether the cap or the deadline comes first depends on the machine."""
ENDLESS = {
    "drip?every=0.001&deltas=500": {"upstream_timeout"},
    "pings": {"upstream_timeout"},
    "pings?every=0": FLOOD,
    "endless?rate=500": {"upstream_timeout"},
    "endless": FLOOD,
    "huge": FLOOD,
    "huge_line": FLOOD,
    "endless_error": {"upstream_error"},
}
"""What the upstream does, and the possible error codes of its reply."""
GROWTH = 40 * MB
"""Bytes by which the process may later exceed its memory after the first such streams, at any moment."""


@pytest.mark.promise("P8")
def test_a_stream_without_end_is_cut_and_memory_stays(product: Product, fake: FakeUpstream) -> None:
    server = product.server(
        REPLY_FIRST_BYTE_SECONDS=str(TOTAL),
        REPLY_IDLE_SECONDS=str(TOTAL),
        REPLY_TOTAL_SECONDS=str(TOTAL),
        REPLY_MAX_BYTES=str(CAP),
        LOG_LEVEL="INFO",
    )
    client = product.client()
    _a_round(client, fake)  # fills pools, and loads what is loaded once
    before = resident(server.pid)
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")  # resets the peak
    for _ in range(effort(1, 10)):
        _a_round(client, fake)
    assert resident(server.pid, "VmHWM") - before < GROWTH
    assert client.ask("And now?")["message"]["status"] == "complete"


def _a_round(client: Client, fake: FakeUpstream) -> None:
    for how, codes in ENDLESS.items():
        fake.behave(how, lane="stream")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for code, said in pool.map(_cut_off, [client] * AT_ONCE):
                assert code in codes, how
                assert said <= CAP
        fake.wait_until(lambda it: it.active == 0)
    fake.behave("normal")


def _cut_off(client: Client) -> tuple[str, int]:
    """Return how one reply ended and how many bytes it has."""
    started = time.monotonic()
    events = say(client, "Go on.")
    assert time.monotonic() - started <= TOTAL + SLACK
    assert events[-1].data["message"]["content"] == joined(events)
    return events[-1].data["error"]["code"], len(joined(events).encode())
