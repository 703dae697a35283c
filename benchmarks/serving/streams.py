"""Streams through one real server process over the fake upstream: first token, streams per second, CPU, memory.

Server, upstream and client run in separate processes. Measured in turn with it: the same through a bare view
(`benchmarks.serving.bare_view`), which is the limit of what a server of this kind can do, and, for the first token, the
upstream by itself. The bars are ratios to the bare view, so that they hold on any machine.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from django.contrib.auth.models import User
from knox.models import AuthToken

from benchmarks.chats import make_chat
from benchmarks.figures import Figure, Group, percentile
from benchmarks.serving import processes
from benchmarks.serving.client import Connection, chat_id_of
from benchmarks.serving.processes import Running
from benchmarks.speech import exchanges

DELTAS = 200
FIRST_TOKEN_BAR = 2.0
STREAMS_BAR = 0.45
CPU_BAR = 2.2
AT_ONCE = 20
ROUNDS = 10
"""Rounds of streams through the product and as many through the bare view, in turn."""
OPEN = 200
OPEN_SECONDS = 10
"""The duration of each open stream; all of them are open for most of it."""
TURNS_A_CHAT = 5
WARM_UP = 40


@dataclass(slots=True)
class Run:
    """What clients measured, and the CPU time that the server used, in seconds."""

    first_tokens: list[float] = field(default_factory=list)
    streams_a_second: list[float] = field(default_factory=list)
    """One value per round."""
    cpu: float = 0.0

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds per stream."""
        return self.cpu * 1000 / len(self.first_tokens)


def first_token(owner: User, *, rounds: int = 200) -> Group:
    """Measure one stream at a time: through the server, through the bare view, and from the upstream directly."""
    chats = [str(make_chat(owner, 20).pk) for _ in range((WARM_UP + rounds) // TURNS_A_CHAT)]
    token = AuthToken.objects.create(owner)[1]
    with serving(f"normal?deltas={DELTAS}") as (server, upstream), processes.bare_view(upstream) as bare:
        series = asyncio.run(_alternate(server, bare, upstream, token, chats))
    through, view, alone = ([time * 1000 for time in one] for one in series)
    over, view_over = (median(one) - median(alone) for one in (through, view))
    note = f"bare view {view_over:.2f} ms; the upstream alone {median(alone):.2f} ms; medians of {rounds}"
    return Group(
        "Time to first token",
        (
            Figure("over the bare upstream", over, "ms", note=note),
            Figure("  over that of the bare view", over / view_over, "×", bar=FIRST_TOKEN_BAR, portable=True),
            _tail("95th percentile through the server", through, view),
        ),
    )


def throughput(owner: User, *, streams: int = 1_000) -> Group:
    """Measure streams of 200 deltas, 20 at a time, in chats of five turns; as many through the bare view, in turn."""
    token = AuthToken.objects.create(owner)[1]
    product, limit = Run(), Run()
    with serving(f"normal?deltas={DELTAS}") as (server, upstream), processes.bare_view(upstream) as bare:
        for one in (server, bare):
            asyncio.run(_many(one, token, WARM_UP, Run()))
        for _ in range(ROUNDS):
            asyncio.run(_many(server, token, streams // ROUNDS, product))
            asyncio.run(_many(bare, token, streams // ROUNDS, limit))
    title = f"Streams of {DELTAS} deltas, {AT_ONCE} at a time, one server process"
    return Group(title, tuple(_throughput(product, limit)))


def _throughput(product: Run, limit: Run) -> Iterator[Figure]:
    count = f"{len(product.first_tokens):,} streams"
    yield Figure("CPU of the server a stream", product.cpu_ms, "ms", note=f"bare view {limit.cpu_ms:.2f} ms; {count}")
    ratio = product.cpu_ms / limit.cpu_ms
    yield Figure("  over that of the bare view", ratio, "×", bar=CPU_BAR, portable=True)
    speeds = [median(run.streams_a_second) for run in (product, limit)]
    note = f"bare view {speeds[1]:.0f}; medians of {ROUNDS} rounds"
    yield Figure("streams a second", speeds[0], "", note=note)
    ratio = speeds[0] / speeds[1]
    yield Figure("  of those of the bare view", ratio, "×", bar=STREAMS_BAR, at_least=True, portable=True)
    first, bare = ([time * 1000 for time in run.first_tokens] for run in (product, limit))
    yield Figure("first token, median", median(first), "ms", note=f"bare view {median(bare):.1f} ms")
    yield _tail("first token, 95th percentile", first, bare)


def _tail(name: str, through: list[float], view: list[float]) -> Figure:
    note = f"bare view {percentile(view, 0.95):.2f} ms; {len(through):,} samples"
    return Figure(name, percentile(through, 0.95), "ms", note=note)


def memory(owner: User) -> Group:
    """Measure the server's resident memory with 200 streams open, and how much that is over its idle memory."""
    token = AuthToken.objects.create(owner)[1]
    pace = f"normal?deltas={DELTAS}&rate={DELTAS / OPEN_SECONDS}"
    with serving(pace) as (server, _):
        asyncio.run(_open(server, token, AT_ONCE))
        idle = processes.resident_mib(server.pid)
        peak = asyncio.run(_peak(server, token))
    return Group(
        f"Memory of one server process with {OPEN} open streams",
        (
            Figure("idle, after some streams", idle, "MiB"),
            Figure("peak", peak, "MiB", note=f"{DELTAS} deltas each, in {OPEN_SECONDS} s"),
            Figure("a stream", (peak - idle) * 1024 / OPEN, "KiB"),
        ),
    )


@contextmanager
def serving(behaviour: str) -> Iterator[tuple[Running, Running]]:
    """Run a server process and its fake upstream."""
    with (
        tempfile.TemporaryDirectory() as folder,
        processes.fake_upstream(behaviour) as upstream,
        processes.server(upstream, Path(folder) / "log") as server,
    ):
        yield server, upstream


async def _alternate(
    server: Running, bare: Running, upstream: Running, token: str, chats: list[str]
) -> tuple[list[float], ...]:
    """Return seconds to the first token from the server, the bare view and the upstream, requested in turn."""
    through, view = await Connection(server.port, token).open(), await Connection(bare.port).open()
    alone = await Connection(upstream.port).open()
    said = exchanges()[0].user
    same = {"model": "gpt-5-mini", "input": [{"role": "user", "content": said}], "stream": True}
    series: tuple[list[float], ...] = ([], [], [])
    for chat_id in chats * TURNS_A_CHAT:
        asked = {"message": said, "chat_id": chat_id}
        series[0].append((await through.post("/v1/message", asked)).first_token)
        series[1].append((await view.post("/v1/message", asked)).first_token)
        series[2].append((await alone.post("/v1/responses", same)).first_token)
    for connection in (through, view, alone):
        await connection.close()
    return tuple(one[WARM_UP:] for one in series)


async def _many(server: Running, token: str, streams: int, run: Run) -> None:
    left = iter(range(streams))
    computed, started = processes.cpu_seconds(server.pid), time.perf_counter()
    async with asyncio.TaskGroup() as clients:
        for _ in range(AT_ONCE):
            clients.create_task(talk(server, token, left, run))
    run.streams_a_second.append(streams / (time.perf_counter() - started))
    run.cpu += processes.cpu_seconds(server.pid) - computed


async def talk(server: Running, token: str, left: Any, run: Run) -> None:
    connection = await Connection(server.port, token).open()
    chat_id = ""
    for turn, _ in enumerate(left):
        body = {"message": exchanges()[turn % len(exchanges())].user}
        if turn % TURNS_A_CHAT:
            answer = await connection.post("/v1/message", {**body, "chat_id": chat_id})
        else:
            answer = await connection.post("/v1/message/first", body)
            chat_id = chat_id_of(answer)
        run.first_tokens.append(answer.first_token)
    await connection.close()


async def _open(server: Running, token: str, streams: int) -> None:
    async with asyncio.TaskGroup() as clients:
        for _ in range(streams):
            clients.create_task(talk(server, token, iter(range(1)), Run()))


async def _peak(server: Running, token: str) -> float:
    streams = asyncio.create_task(_open(server, token, OPEN))
    peak = 0.0
    while not streams.done():
        peak = max(peak, await asyncio.to_thread(processes.resident_mib, server.pid))
        await asyncio.wait([streams], timeout=0.2)
    await streams
    return peak
