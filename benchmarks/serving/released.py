"""A turn, a fold and a stream of this version over those of the released one, on a database each, in turn.

Each version has a server, and a process that times turns and folds without one. That process is this file, which the
released version does not have: it is run by path, and imports only what both versions have.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from benchmarks.figures import Group
    from benchmarks.serving.processes import Running

BAR = 1.05
ROUNDS, WARM_UP = 30, 3
TURNS, FOLDS, STREAMS = 10, 5, 20
"""Of each version in each round."""
DELTAS = 200
CHATS, LENGTH = 40, 40
"""Chats for the streams, and turns of each chat."""


@dataclass
class Version:
    """One version's processes, and the seconds that were measured."""

    timer: subprocess.Popen[str]
    server: Running
    token: str
    chats: list[str]
    turns: list[float] = field(default_factory=list)
    folds: list[float] = field(default_factory=list)
    streams: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """Of the server, for the streams of a round."""

    def round(self) -> None:
        self.turns += ask(self.timer, f"turns {TURNS}")
        self.folds += ask(self.timer, f"folds {FOLDS}")
        asyncio.run(self._stream())

    async def _stream(self) -> None:
        from benchmarks.serving import processes
        from benchmarks.serving.client import Connection

        used = processes.cpu_seconds(self.server.pid)
        connection = await Connection(self.server.port, self.token).open()
        for _ in range(STREAMS):
            self.chats.append(self.chats.pop(0))
            body = {"message": "What did we decide?", "chat_id": self.chats[0]}
            self.streams.append((await connection.post("/v1/message", body)).total)
        await connection.close()
        self.cpu.append(processes.cpu_seconds(self.server.pid) - used)

    def forget(self) -> None:
        """Drop what was measured while processes warmed up."""
        for series in (self.turns, self.folds, self.streams, self.cpu):
            series.clear()


def run(owner: User) -> Group:
    """Compare both on the kind of database of this process."""
    from benchmarks.figures import Figure, Group, ratio
    from benchmarks.serving import processes
    from tests.support.processes import ROOT
    from tests.support.released import RELEASED, unpack

    with ExitStack() as stack:
        upstream = stack.enter_context(processes.fake_upstream(f"normal?deltas={DELTAS}"))
        before = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chatmemory-bench-")))
        unpack(before)
        old, new = (stack.enter_context(_version(root, upstream)) for root in (before, ROOT))
        for number in range(WARM_UP + ROUNDS):
            for version in (old, new) if number % 2 else (new, old):
                version.round()
                if number < WARM_UP:
                    version.forget()

    def figure(name: str, series: Callable[[Version], list[float]], each: int = 1) -> Figure:
        ours, theirs = series(new), series(old)
        note = f"{median(ours) * 1000 / each:.2f} ms; medians of {len(ours)}"
        return Figure(name, ratio(ours, theirs), "×", bar=BAR, portable=True, note=note)

    return Group(
        f"This version over the one before ({RELEASED[:8]})",
        (
            figure("a turn", lambda one: one.turns),
            figure("a fold", lambda one: one.folds),
            figure(f"a stream of {DELTAS} deltas", lambda one: one.streams),
            figure("CPU of the server a stream", lambda one: one.cpu, STREAMS),
        ),
    )


@contextmanager
def _version(root: Path, upstream: Running) -> Iterator[Version]:
    """Run the version of that checkout on a database of its own."""
    from django.conf import settings

    from benchmarks import databases
    from benchmarks.serving import processes
    from tests.support.processes import ROOT

    name = "new" if root == ROOT else "old"
    with ExitStack() as stack:
        database = databases.sqlite() if settings.IS_SQLITE else databases.postgres(f"bench_{name}")
        env = {**os.environ, "DATABASE_URL": stack.enter_context(database), "PYTHONPATH": str(root)}
        # -P: else the files beside this one would be found in place of packages of their names.
        command = [sys.executable, "-P", __file__]
        timer = subprocess.Popen(command, cwd=root, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.enter_context(timer)
        stack.callback(timer.terminate)
        token, *chats = ask(timer, f"chats {CHATS}")
        log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "server.log"
        server = processes.server(upstream, log, root=root, database_url=env["DATABASE_URL"])
        yield Version(timer, stack.enter_context(server), token, chats)


def ask(timer: subprocess.Popen[str], line: str) -> list[Any]:
    """Have a version's process do what the line says, and return its answer."""
    assert timer.stdin is not None
    assert timer.stdout is not None
    print(line, file=timer.stdin, flush=True)
    answer: list[Any] = json.loads(timer.stdout.readline())
    return answer


def main() -> None:
    """Answer each line of standard input: `chats N` with a token and ids, `turns N` and `folds N` with seconds."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from knox.models import AuthToken

    from benchmarks import chats
    from benchmarks.engine.budgets import Prompts
    from benchmarks.engine.turns import Bench
    from benchmarks.speech import exchanges
    from memory.models import SummaryRevision
    from memory.tasks import fold_task
    from tests.support.factories import add_turns, make_chat

    call_command("migrate", verbosity=0)
    owner = User.objects.create_user("benchmark")
    bench = Bench("", owner, chats.make_chat(owner, LENGTH), Prompts())

    def due(number: int) -> list[str]:
        """Make chats that are to be folded."""
        made = [make_chat(owner) for _ in range(number)]
        for chat in made:
            add_turns(chat, [(one.user, one.assistant) for one in (exchanges() * LENGTH)[:LENGTH]])
        return [str(chat.pk) for chat in made]

    def turn() -> float:
        spent = _timed(bench._turn)
        bench.reset()
        return spent

    def folds(number: int) -> list[float]:
        ids = due(number)
        spent = [_timed(lambda pk=pk: fold_task(pk)) for pk in ids]  # type: ignore[misc]
        if not all(SummaryRevision.objects.filter(chat_id=pk).exists() for pk in ids):
            raise RuntimeError("a chat was not folded")
        return spent

    acts: dict[str, Callable[[int], list[Any]]] = {
        "chats": lambda number: [AuthToken.objects.create(owner)[1], *due(number)],
        "turns": lambda number: [turn() for _ in range(number)],
        "folds": folds,
    }
    gc.disable()
    for line in sys.stdin:
        act, number = line.split()
        gc.collect()
        print(json.dumps(acts[act](int(number))), flush=True)


def _timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
