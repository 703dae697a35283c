"""The memory and start-up time of `make run`, and of a server and a worker started as commands.

Memory is the proportional set size, summed over all processes, so that pages shared by several count once. Linux only.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User

from benchmarks.figures import Figure, Group
from benchmarks.serving.processes import BOUNDED
from conversations.models import Chat
from memory import queue
from memory.queue import waiting_tasks
from tests.support.ports import free_port

MEMORY_BAR = 250.0
READY_BAR = 3.0
STARTS = 5
TURNS = 20
PATIENCE = 120.0
TICK = 0.02
PRINTED = re.compile(r"Bearer (?P<token>\w+).*\"chat_id\": \"(?P<chat>[\w-]+)\"", re.DOTALL)


def run(_owner: User) -> Group:
    """Run `manage.py quickstart` twice, each time with some work; then start server and worker, five times."""
    first, _, _, _ = _quickstart()
    again, count, idle, used = _quickstart()
    starts = [_commands() for _ in range(STARTS)]
    ready = sorted(seconds for seconds, _ in starts)
    return Group(
        "What it takes to run",
        (
            Figure("`make run`, memory when all is up", idle, "MiB", note=f"processes: {count}"),
            Figure(
                "  after some work",
                used,
                "MiB",
                bar=MEMORY_BAR,
                note=f"{TURNS} turns, and folds",
            ),
            Figure("  up, the first time", first, "s", note="tables, users and the sample chat are made"),
            Figure("  up, from then on", again, "s"),
            Figure(
                "server and worker as commands, ready",
                ready[len(ready) // 2],
                "s",
                bar=READY_BAR,
                note=f"started at once; median of {STARTS}, the slowest {ready[-1]:.1f} s",
            ),
            Figure("  memory", max(memory for _, memory in starts), "MiB"),
        ),
    )


def _quickstart() -> tuple[float, int, float, float]:
    """Return seconds until the screen is shown; the number and memory of processes; memory after some work."""
    port, began = free_port(), time.monotonic()
    with _process([str(settings.BASE_DIR / "manage.py"), "quickstart", "--port", str(port)]) as process:
        screen = _screen(process)
        up = time.monotonic() - began
        count, idle = 1 + len(descendants_of(process.pid)), _mebibytes(process.pid)
        found = PRINTED.search(screen)
        assert found is not None
        for _ in range(TURNS):
            _ask(port, found["token"], found["chat"])
        chat = Chat.objects.get(pk=found["chat"]).key
        for _ in range(10):
            queue.enqueue_fold(chat, lost=True)
        _until(lambda: not waiting_tasks())
        return up, count, idle, _mebibytes(process.pid)


def _screen(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    shown = ""
    for line in process.stdout:
        shown = f"{shown}{line}"
        if "Press Ctrl-C" in line:
            return shown
    raise RuntimeError(f"quickstart ended: {shown}")


def _commands() -> tuple[float, float]:
    """Return seconds until `/readyz` reports both server and worker ready, and the memory of both."""
    port, began = free_port(), time.monotonic()
    server = ["-m", "uvicorn", "chatmemory.asgi:application", "--http", BOUNDED, "--port", str(port)]
    with ExitStack() as stack:
        both = [
            stack.enter_context(_process(command))
            for command in ([*server, "--no-access-log"], [str(settings.BASE_DIR / "manage.py"), "worker"])
        ]
        _until(lambda: _status(port, "/readyz") == 200)
        return time.monotonic() - began, sum(_mebibytes(one.pid) for one in both)


@contextmanager
def _process(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=settings.BASE_DIR,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def _mebibytes(pid: int) -> float:
    return sum(map(_share, [pid, *descendants_of(pid)])) / 1024


def _share(pid: int) -> int:
    told = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+) kB", told, re.MULTILINE)[1])  # type: ignore[index]  # it is always there


def _ask(port: int, token: str, chat: str) -> None:
    body = json.dumps({"chat_id": chat, "message": "What did we say about the date of the trip?"})
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/v1/message", body, headers)
    assert b"message.completed" in connection.getresponse().read()
    connection.close()


def _status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def _until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError("what was waited for did not come")
        time.sleep(5 * TICK)


def descendants_of(pid: int) -> list[int]:
    """Return a process's living children, their children, and so on, read from /proc."""
    below = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            state, parent = (path / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                below.append(int(path.name))
    return [*below, *(one for child in below for one in descendants_of(child))]
