"""Many slow streams at once through one or two server processes: the delay of deltas, and the memory per open stream.

Servers, upstream and client run in separate processes. A delta's delay is the time from when the upstream wrote it to
when the client read it. The phases in which streams begin and end are not in the figures.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import uvloop
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from knox.models import AuthToken

from benchmarks.figures import Figure, Group, percentile
from benchmarks.serving import processes
from benchmarks.serving.listener import Heard, Listener, listen
from benchmarks.serving.pacemaker import RATE
from benchmarks.serving.processes import Running
from benchmarks.speech import exchanges

STREAMS = 1000
"""Streams per server process."""
SECONDS = 60
"""Seconds for which all of them are open."""
LATE_BAR = 250.0
MEMORY_BAR = 100.0
"""KiB per stream."""
AT_ONCE = 10
"""Streams that begin at the same time."""
BEFORE = 50
"""Streams that are opened and closed together as a warm-up, repeated until there were as many as will be open.

Memory that grows with the database, like SQLite's page cache, does not belong to a stream.
"""
SAMPLES = 40
SETTLE_SECONDS = 3


@dataclass(slots=True)
class Seen:
    """Measurements taken while the streams were open."""

    late: list[int] = field(default_factory=list)
    """Delays of deltas, in microseconds."""
    idle_mib: float = 0.0
    open_mib: float = 0.0
    cpu: float = 0.0
    """CPU seconds per second, of all servers together."""
    idle_connections: int = 0
    open_connections: int = 0
    waited: float = 0.0
    """Maximum seconds: a transaction's time open on PostgreSQL, or another writer's wait on SQLite."""


def run(owner: User, *, servers: int = 1, seconds: int = SECONDS) -> Group:
    """Measure `STREAMS` streams through each of `servers` server processes, for `seconds` seconds."""
    token = AuthToken.objects.create(owner)[1]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        upstream = stack.enter_context(processes.pacemaker())
        started = [
            stack.enter_context(processes.server(upstream, Path(folder) / f"log{number}")) for number in range(servers)
        ]
        seen = uvloop.run(_measure(started, upstream, token, seconds))
    where = "one server process" if servers == 1 else f"{servers} server processes"
    streams = STREAMS * servers
    return Group(f"{streams} slow streams at once, {where}", _figures(seen, streams, seconds))


def two_servers(owner: User) -> Group:
    """Measure the same through two server processes, each with as many streams."""
    return run(owner, servers=2)


def _figures(seen: Seen, streams: int, seconds: int) -> tuple[Figure, ...]:
    late = sorted(seen.late)
    rate = len(late) / seconds
    return (
        Figure("deltas a second", rate, "", bar=0.99 * streams * RATE, at_least=True, note=f"in {seconds} s"),
        Figure("late, median", median(late) / 1000, "ms"),
        Figure("late, 95th percentile", percentile(late, 0.95) / 1000, "ms", bar=LATE_BAR),
        Figure("late, at most", late[-1] / 1000, "ms"),
        Figure("of one core", 100 * seen.cpu, "%"),
        Figure("memory with all of them open", seen.open_mib, "MiB", note=f"{seen.idle_mib:.0f} MiB before"),
        Figure("a stream", (seen.open_mib - seen.idle_mib) * 1024 / streams, "KiB", bar=MEMORY_BAR),
        *_held(seen),
    )


def _held(seen: Seen) -> tuple[Figure, ...]:
    if settings.IS_SQLITE:
        return (Figure("another writer waits, at most", seen.waited * 1000, "ms", note=f"asked {SAMPLES} times"),)
    more = seen.open_connections - seen.idle_connections
    note = f"{seen.open_connections} of the server's, at most, and {seen.idle_connections} before"
    return (
        Figure("more connections to the database", more, "", bar=0, portable=True, note=note),
        Figure("a transaction is open, at most", seen.waited * 1000, "ms", note=f"asked {SAMPLES} times"),
    )


async def _measure(servers: Sequence[Running], upstream: Running, token: str, seconds: int) -> Seen:
    seen = Seen()
    for server in servers:
        for _ in range(0, STREAMS, BEFORE):
            await _end(upstream, await _begin(server, token, BEFORE, Heard()))
    seen.idle_connections, _ = await asyncio.to_thread(_look)
    seen.idle_mib = _resident_mib(servers)
    heard = Heard()
    opened = [one for server in servers for one in await _begin(server, token, STREAMS, heard)]
    await asyncio.sleep(SETTLE_SECONDS)
    start, computed = time.monotonic_ns() // 1000, _cpu_seconds(servers)
    for _ in range(SAMPLES):
        await asyncio.sleep(seconds / SAMPLES)
        connections, waited = await asyncio.to_thread(_look)
        seen.open_connections = max(seen.open_connections, connections)
        seen.waited = max(seen.waited, waited)
    elapsed = time.monotonic_ns() // 1000 - start
    seen.cpu = (_cpu_seconds(servers) - computed) / elapsed * 1e6
    seen.open_mib = _resident_mib(servers)
    await _end(upstream, opened)
    seen.late = heard.between(start, start + seconds * 1_000_000)
    return seen


def _resident_mib(servers: Sequence[Running]) -> float:
    return sum(processes.resident_mib(one.pid) for one in servers)


def _cpu_seconds(servers: Sequence[Running]) -> float:
    return sum(processes.cpu_seconds(one.pid) for one in servers)


async def _begin(server: Running, token: str, streams: int, heard: Heard) -> list[Listener]:
    left = iter(range(streams))
    opened: list[Listener] = []

    async def some() -> None:
        for number in left:
            said = exchanges()[number % len(exchanges())].user
            opened.append(await listen(server.port, token, said, heard))

    async with asyncio.TaskGroup() as clients:
        for _ in range(AT_ONCE):
            clients.create_task(some())
    return opened


async def _end(upstream: Running, opened: list[Listener]) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    writer.write(b"POST /end HTTP/1.1\r\n\r\n")
    await asyncio.gather(*(one.ended for one in opened))
    writer.close()


def _look() -> tuple[int, float]:
    """Return the number of other connections to PostgreSQL (0 on SQLite), and `Seen.waited` at this moment."""
    with closing(connection), connection.cursor() as cursor:
        if settings.IS_SQLITE:
            begun = time.perf_counter()
            cursor.execute("BEGIN IMMEDIATE")
            waited = time.perf_counter() - begun
            cursor.execute("ROLLBACK")
            return 0, waited
        cursor.execute(
            "SELECT count(*), coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)"
            " FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        count, oldest = cursor.fetchone()
        return count, float(oldest)
