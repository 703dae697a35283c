"""What more processes give, and whether more chats cost: `benchmarks scale`, on PostgreSQL.

Servers of 1, 2 and 4 processes run beside each other on one database, and are asked in turn, so that all drift alike.
Client, upstream and PostgreSQL share the machine with them: the ratios are those of the whole machine, and the CPU that
a turn takes says more of a larger one.

- Turns: short replies as fast as they come, in chats of five turns, `AT_ONCE` at a time.
- Streams: replies of `STREAM_SECONDS` whose model thinks for `WAIT_SECONDS`. More and more begin each second, until
  first words take, at the 95th percentile, more than twice as long as at the beginning.
- Folds: of workers with the default number of threads, whose summarizer takes a second.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path
from statistics import median

import uvloop
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from knox.models import AuthToken

from benchmarks.engine import many_chats
from benchmarks.figures import Figure, Group, percentile
from benchmarks.serving import processes, streams
from benchmarks.serving.folds import folds_a_second
from benchmarks.serving.listener import Heard, listen
from benchmarks.serving.pacemaker import RATE
from benchmarks.serving.processes import Running
from benchmarks.speech import exchanges

PROCESSES = (1, 2, 4)
WORKERS = (1, 2)
ROUNDS = 4
SECONDS = 5.0
"""Of turns, in each round and with each number of processes."""
AT_ONCE = 20
WARM_UP_SECONDS = 3.0
STREAM_SECONDS = 5.0
WAIT_SECONDS = 0.2
RAMPS = 2
FIRST_RATE, MORE_A_SECOND = 10.0, 3.0
"""Streams that begin in the first second, and how many more in each further second."""
TOO_LONG_SECONDS = 0.8
"""A ramp ends when first words take so long on average, which is beyond what is looked for."""
WINDOW_SECONDS = 2.0
SLOWER = 2.0


@dataclass(slots=True)
class Served:
    """What one server's turns took, in all rounds."""

    turns: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    database_cpu: float = 0.0
    """CPU seconds of PostgreSQL's processes for our database; 0 if they are not on this machine."""
    cpu_around: float = 0.0
    """CPU seconds of client and upstream."""
    streams: list[float] = field(default_factory=list)
    """Streams begun a second at which first words came too late, one of each ramp."""


def run(owner: User) -> Group:
    """Measure turns, streams and folds, then what is done among many chats."""
    found = [*served(owner), *folded(owner), *many_chats.figures()]
    return Group(f"Growth, on {os.cpu_count()} cores", tuple(found))


def served(owner: User, rounds: int = ROUNDS, ramps: int = RAMPS) -> Iterator[Figure]:
    """Measure turns and streams a second with each number of server processes."""
    token = AuthToken.objects.create(owner)[1]
    found = {number: Served() for number in PROCESSES}
    for upstream, times, measure in (
        (processes.sink(), rounds, _turns),
        (processes.pacemaker(*_PACE), ramps, _streams),
    ):
        with ExitStack() as stack:
            folder, fake = stack.enter_context(tempfile.TemporaryDirectory()), stack.enter_context(upstream)
            servers = {number: stack.enter_context(_server(fake, folder, number)) for number in PROCESSES}
            for server in servers.values():
                uvloop.run(_talk(server, token, WARM_UP_SECONDS, streams.Run(), 3 * AT_ONCE))
            for _ in range(times):
                for number, server in servers.items():
                    measure(server, fake, token, found[number])
    yield from _figures(found)


_PACE = ("--wait", str(round(WAIT_SECONDS * RATE)), "--deltas", str(round(STREAM_SECONDS * RATE)))


def _server(upstream: Running, folder: str, number: int) -> AbstractContextManager[Running]:
    return processes.server(upstream, Path(folder) / f"log{number}", options=("--workers", str(number)))


def _turns(server: Running, upstream: Running, token: str, found: Served) -> None:
    family, run = processes.family(server.pid), streams.Run()

    def spent() -> tuple[float, float]:
        around = time.process_time() + processes.cpu_seconds(upstream.pid)
        return sum(map(processes.cpu_seconds, family)), around

    (cpu, around), database, began = spent(), _database_cpu(), time.monotonic()
    uvloop.run(_talk(server, token, SECONDS, run))
    found.seconds += time.monotonic() - began
    found.turns += len(run.first_tokens)
    found.database_cpu += sum(now - database.get(pid, 0.0) for pid, now in _database_cpu().items())
    found.cpu, found.cpu_around = found.cpu + spent()[0] - cpu, found.cpu_around + spent()[1] - around


async def _talk(server: Running, token: str, seconds: float, run: streams.Run, at_once: int = AT_ONCE) -> None:
    until = time.monotonic() + seconds
    left = takewhile(lambda _: time.monotonic() < until, count())
    async with asyncio.TaskGroup() as clients:
        for _ in range(at_once):
            clients.create_task(streams.talk(server, token, left, run))


def _database_cpu() -> dict[int, float]:
    """Return the CPU seconds of PostgreSQL's process for each connection, if it runs on this machine."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        pids = [pid for (pid,) in cursor.fetchall()]
    spent = {}
    for pid in pids:
        with suppress(FileNotFoundError):
            if "postgres" in Path(f"/proc/{pid}/comm").read_text():
                spent[pid] = processes.cpu_seconds(pid)
    return spent


def _streams(server: Running, upstream: Running, token: str, found: Served) -> None:
    del upstream  # It has no part in it.
    late = first_late(uvloop.run(_ramp(server, token)))
    found.streams.append(FIRST_RATE + MORE_A_SECOND * late)


async def _ramp(server: Running, token: str) -> list[tuple[float, float]]:
    """Begin more and more streams, until far too many wait. Return when each was asked for, and how long it waited."""
    loop, heard, waits = asyncio.get_running_loop(), Heard(), list[tuple[float, float]]()
    opened = list[asyncio.Task[None]]()
    began = due = loop.time()

    async def one(said: str) -> None:
        asked = loop.time()
        listener = await listen(server.port, token, said, heard)
        waits.append((asked - began, loop.time() - asked))
        await listener.ended

    rate = FIRST_RATE
    while len(opened) - len(waits) < FIRST_RATE + rate * TOO_LONG_SECONDS:
        opened.append(asyncio.create_task(one(exchanges()[len(opened) % len(exchanges())].user)))
        due += 1 / rate
        await asyncio.sleep(due - loop.time())
        rate = FIRST_RATE + MORE_A_SECOND * (due - began)
    await asyncio.gather(*opened)
    return waits


def first_late(waits: Sequence[tuple[float, float]]) -> float:
    """Return the time at which waits became too long, for two windows in a row; the last one if they never did.

    Pure: `waits` are pairs of a time and how long a caller waited then, in seconds.
    """
    windows = defaultdict[int, list[float]](list)
    for asked, waited in waits:
        windows[int(asked / WINDOW_SECONDS)].append(waited)
    slow = [percentile(windows[at], 0.95) for at in range(max(windows) + 1)]
    bound = SLOWER * max(slow[:2])
    late = (at for at in range(2, len(slow)) if min(slow[at : at + 2]) > bound)
    return WINDOW_SECONDS * next(late, len(slow))


def _figures(found: dict[int, Served]) -> Iterator[Figure]:
    one, *_ = found.values()
    speed = one.turns / one.seconds
    most = (os.cpu_count() or 1) / (one.cpu + one.database_cpu + one.cpu_around) * one.seconds
    note = f"{AT_ONCE} at a time; client and upstream take {1000 * one.cpu_around / one.turns:.1f} ms of CPU a turn"
    yield Figure("turns a second, one server process", speed, "", note=note)
    for number, many in list(found.items())[1:]:
        note = f"the machine has time for {most:.2f} at most"
        yield Figure(f"turns a second, {number} processes over one", many.turns / many.seconds / speed, "×", note=note)
    for number, many in found.items():
        plural = "es" if number > 1 else ""
        yield Figure(f"CPU of {number} process{plural} a turn", 1000 * many.cpu / many.turns, "ms")
    if one.database_cpu:
        yield Figure("CPU of PostgreSQL a turn", 1000 * one.database_cpu / one.turns, "ms")
    note = f"of {STREAM_SECONDS:.0f} s each; first words after {WAIT_SECONDS} s from the model"
    first = median(one.streams)
    yield Figure("streams begun a second, one server process", first, "", note=note)
    for number, many in list(found.items())[1:]:
        yield Figure(f"streams begun a second, {number} processes over one", median(many.streams) / first, "×")


def folded(owner: User) -> Iterator[Figure]:
    """Measure folds a second of one worker, and of two."""
    threads = settings.WORKER_THREADS
    speeds = {number: folds_a_second(owner, threads, 10 * number * threads, number) for number in WORKERS}
    note = f"{threads} threads; {speeds[1][1]:.1f} ms of CPU each"
    yield Figure("folds a second, one worker", speeds[1][0], "", note=note)
    for number in WORKERS[1:]:
        yield Figure(f"folds a second, {number} workers over one", speeds[number][0] / speeds[1][0], "×")
