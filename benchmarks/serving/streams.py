"""Streams through one real server process over the fake upstream: first token, streams a second, memory.

Server, upstream and client are a process each. What is measured in turn: the same request to the upstream alone.
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
FIRST_TOKEN_BAR = 8.0
STREAMS_BAR = 100.0
AT_ONCE = 20
OPEN = 200
OPEN_SECONDS = 10
"""How long each of the open streams takes; all of them are open for most of it."""
TURNS_A_CHAT = 5
WARM_UP = 40


@dataclass(slots=True)
class Run:
    """What clients measured, in seconds."""

    first_tokens: list[float] = field(default_factory=list)
    elapsed: float = 0.0


def first_token(owner: User, *, rounds: int = 200) -> Group:
    """One stream at a time: through the server, and from the upstream alone."""
    chats = [str(make_chat(owner, 20).pk) for _ in range((WARM_UP + rounds) // TURNS_A_CHAT)]
    token = AuthToken.objects.create(owner)[1]
    with _product(f"normal?deltas={DELTAS}") as (server, upstream):
        through, bare = asyncio.run(_alternate(server, upstream, token, chats))
    over = (median(through) - median(bare)) * 1000
    note = f"through the server {median(through) * 1000:.2f} ms, bare {median(bare) * 1000:.2f} ms; medians of {rounds}"
    return Group(
        "Time to first token",
        (
            Figure("over the bare upstream", over, "ms", bar=FIRST_TOKEN_BAR, note=note),
            Figure("95th percentile through the server", percentile(through, 0.95) * 1000, "ms"),
        ),
    )


def throughput(owner: User, *, streams: int = 1_000) -> Group:
    """Streams of 200 deltas, 20 at a time, in chats of five turns."""
    token = AuthToken.objects.create(owner)[1]
    with _product(f"normal?deltas={DELTAS}") as (server, _):
        asyncio.run(_many(server, token, WARM_UP))
        run = asyncio.run(_many(server, token, streams))
    title = f"Streams of {DELTAS} deltas, {AT_ONCE} at a time, one server process"
    return Group(
        title,
        (
            Figure(
                "streams a second",
                streams / run.elapsed,
                "",
                bar=STREAMS_BAR,
                at_least=True,
                note=f"{streams} streams",
            ),
            Figure("first token, median", median(run.first_tokens) * 1000, "ms"),
            Figure("first token, 95th percentile", percentile(run.first_tokens, 0.95) * 1000, "ms"),
        ),
    )


def memory(owner: User) -> Group:
    """The server's resident memory with 200 streams open, over what it has when idle."""
    token = AuthToken.objects.create(owner)[1]
    pace = f"normal?deltas={DELTAS}&rate={DELTAS / OPEN_SECONDS}"
    with _product(pace) as (server, _):
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
def _product(behaviour: str) -> Iterator[tuple[Running, Running]]:
    """A server process and the fake upstream that it asks."""
    with (
        tempfile.TemporaryDirectory() as folder,
        processes.fake_upstream(behaviour) as upstream,
        processes.server(upstream, Path(folder) / "log") as server,
    ):
        yield server, upstream


async def _alternate(
    server: Running, upstream: Running, token: str, chats: list[str]
) -> tuple[list[float], list[float]]:
    through = await Connection(server.port, token).open()
    bare = await Connection(upstream.port).open()
    asked = {"message": exchanges()[0].user}
    same = {
        "model": "gpt-5-mini",
        "input": [{"role": "user", "content": exchanges()[0].user}],
        "stream": True,
    }
    series: tuple[list[float], list[float]] = ([], [])
    for chat_id in chats * TURNS_A_CHAT:
        series[0].append((await through.post("/v1/message", {**asked, "chat_id": chat_id})).first_token)
        series[1].append((await bare.post("/v1/responses", same)).first_token)
    await through.close()
    await bare.close()
    return series[0][WARM_UP:], series[1][WARM_UP:]


async def _many(server: Running, token: str, streams: int) -> Run:
    run = Run()
    left = iter(range(streams))
    started = time.perf_counter()
    async with asyncio.TaskGroup() as clients:
        for _ in range(AT_ONCE):
            clients.create_task(_talk(server, token, left, run))
    run.elapsed = time.perf_counter() - started
    return run


async def _talk(server: Running, token: str, left: Any, run: Run) -> None:
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
            clients.create_task(_talk(server, token, iter(range(1)), Run()))


async def _peak(server: Running, token: str) -> float:
    streams = asyncio.create_task(_open(server, token, OPEN))
    peak = 0.0
    while not streams.done():
        peak = max(peak, await asyncio.to_thread(processes.resident_mib, server.pid))
        await asyncio.wait([streams], timeout=0.2)
    await streams
    return peak
