"""The delay from an upstream's delta to the client's, for a single slow stream: through a server and the bare view.

A delta's text is the time at which the upstream wrote it (`benchmarks.serving.pacemaker`). The streams run in turn.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import uvloop
from django.contrib.auth.models import User
from knox.models import AuthToken

from benchmarks.figures import Figure, Group, percentile
from benchmarks.serving import processes
from benchmarks.serving.listener import Heard, listen
from benchmarks.serving.pacemaker import RATE
from benchmarks.serving.processes import Running

ROUNDS = 8
SECONDS = 5.0
"""Seconds of each stream."""
OVER_BAR = 1.0
"""Milliseconds."""


def run(owner: User, *, rounds: int = ROUNDS, seconds: float = SECONDS) -> Group:
    """Measure medians and tails of both, and the difference of the medians."""
    token = AuthToken.objects.create(owner)[1]
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        upstream = stack.enter_context(processes.pacemaker())
        server = stack.enter_context(processes.server(upstream, Path(folder) / "log"))
        bare = stack.enter_context(processes.bare_view(upstream))
        through, view = uvloop.run(_in_turn(server, bare, upstream, token, rounds, seconds))
    middle, tail = median(through), percentile(through, 0.95)
    note = f"bare view {median(view):.2f} ms; {len(through)} and {len(view)} deltas, {RATE} a second"
    return Group(
        "From the upstream's delta to the client's, one stream alone",
        (
            Figure("through the server, median", middle, "ms", note=note),
            Figure("  over the bare view", middle - median(view), "ms", bar=OVER_BAR),
            Figure(
                "through the server, 95th percentile",
                tail,
                "ms",
                note=f"bare view {percentile(view, 0.95):.2f} ms",
            ),
        ),
    )


async def _in_turn(
    server: Running, bare: Running, upstream: Running, token: str, rounds: int, seconds: float
) -> tuple[list[float], list[float]]:
    """Return the delays of deltas through the server and through the bare view, in milliseconds."""
    through, view = list[float](), list[float]()
    for number in range(rounds + 1):
        for found, port in ((through, server.port), (view, bare.port)):
            late = await _late(port, upstream, token, seconds if number else 0.5)
            found += late if number else []  # the first round warms up
    return through, view


async def _late(port: int, upstream: Running, token: str, seconds: float) -> list[float]:
    heard = Heard()
    stream = await listen(port, token, "Tell me about the harbour at night.", heard)
    await asyncio.sleep(seconds)
    read = len(heard.late)
    _, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    writer.write(b"POST /end HTTP/1.1\r\n\r\n")
    await asyncio.wait([stream.ended], timeout=1.0)  # the bare view sends nothing at its end
    writer.close()
    stream.close()
    return [one / 1000 for one in heard.late[1:read]]
