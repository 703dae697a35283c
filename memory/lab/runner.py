"""Running talks under several policies, each in a child process on a scratch database in a temporary folder.

The children's settings are this process's environment, except for the database and the queue, so that the server's
own are never touched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from django.conf import settings

from chatmemory.runtime import parent_death, processes
from chatmemory.runtime.processes import Child
from memory.lab.child import TALKS
from memory.lab.conversation import Conversation
from memory.lab.measures import Run

PATIENCE = 2.0
"""Seconds that a child is given to end by itself."""

BUDGET = "MEMORY_PROMPT_TOKEN_BUDGET"

AT_ONCE = 2
"""The number of policies that run at the same time."""

Tell = Callable[[str, int], None]
"""Called with a policy and the number of turns it has newly done, from several threads."""


LEAST_BUDGET = 200
MOST_BUDGET = 10**9
"""In tokens; the bounds of the setting `MEMORY_PROMPT_TOKEN_BUDGET`."""

TICK_SECONDS = 0.5
"""Seconds between two calls of `on_tick`."""


def least_budget() -> int:
    """The smallest budget of a run, in tokens: it must hold more than a summary."""
    return max(LEAST_BUDGET, settings.MEMORY_LIMITS.summary_cap + 1)


class LabError(Exception):
    """A policy could not be run. The message is a sentence for people."""


class ChildFailed(LabError):
    """The child that played `policy` failed. The message ends with its log's last line, which may quote the talk."""

    def __init__(self, policy: str, last_words: str) -> None:
        super().__init__(f"The policy {policy!r} could not be run: {last_words}")
        self.policy = policy


@dataclass(slots=True)
class _Running:
    """The running children, so that all can be ended at once."""

    options: str
    """Options of the chats, as JSON."""
    children: list[Child] = field(default_factory=list)
    ended: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, folder: Path, policy: str, changes: Mapping[str, str]) -> Child:
        with self.lock:
            if self.ended:
                raise LabError("The lab was stopped.")
            child = _start(folder, policy, self.options, changes)
            self.children.append(child)
            return child

    def end(self) -> None:
        with self.lock:
            self.ended = True
            processes.end(self.children)


def run(
    talks: Sequence[Conversation],
    policies: Sequence[str],
    *,
    budget: int | None = None,
    tell: Tell = lambda _policy, _turns: None,
    on_tick: Callable[[], None] = lambda: None,
    environment: Mapping[str, str] = MappingProxyType({}),
    options: Mapping[str, Any] = MappingProxyType({}),
    at_once: int = AT_ONCE,
) -> dict[str, list[Run]]:
    """Play `talks` under each of `policies`. Return the runs by policy, in the order of the talks.

    `budget` replaces the setting `MEMORY_PROMPT_TOKEN_BUDGET`, `environment` other settings; `options` are those of
    the chats, under the policies that have them. `on_tick` is called in this thread every half second; if it
    raises, the run ends. Raises `LabError`. After any error, no child and no file is left.
    """
    changes = {**environment} if budget is None else {**environment, BUDGET: str(budget)}
    with TemporaryDirectory(prefix="chatmemory-lab-") as name:
        folder = Path(name)
        text = json.dumps([talk.to_json() for talk in talks])
        (folder / TALKS).write_text(text, encoding="utf-8")
        running = _Running(json.dumps(dict(options)))
        with ThreadPoolExecutor(at_once) as pool:
            try:
                futures = [pool.submit(_run, running, folder, policy, changes, tell) for policy in policies]
                _wait(futures, on_tick)
            finally:
                running.end()
        return {policy: future.result() for policy, future in zip(policies, futures, strict=True)}


def _wait(futures: Sequence[Future[list[Run]]], on_tick: Callable[[], None]) -> None:
    """Wait for all futures, or for the first that raises."""
    left = set(futures)
    while left:
        ended, left = wait(left, timeout=TICK_SECONDS, return_when=FIRST_EXCEPTION)
        for future in ended:
            future.result()
        on_tick()


def _run(running: _Running, folder: Path, policy: str, changes: Mapping[str, str], tell: Tell) -> list[Run]:
    child = running.start(folder, policy, changes)
    assert child.process.stdout is not None
    with child.process.stdout as lines:
        for line in lines:
            tell(policy, int(line))
    if child.process.wait() != 0:
        raise ChildFailed(policy, _last_line(child.log))
    return [Run.from_json(data) for data in json.loads((folder / f"{policy}.json").read_text("utf-8"))]


def _start(folder: Path, policy: str, options: str, changes: Mapping[str, str]) -> Child:
    log = folder / f"{policy}.log"
    environment = {
        **os.environ,
        "DATABASE_URL": f"sqlite:///{folder / policy}.sqlite3",
        "RATE_LIMITS": "off",  # turns played here count against nobody's limits
        "LOG_LEVEL": "ERROR",
        **changes,
    }
    with log.open("wb") as file:
        process = subprocess.Popen(  # noqa: S603  # our own module, no shell
            # If a worker is killed, its children end too. The thread that starts one waits for its end.
            parent_death.command([sys.executable, "-m", "memory.lab.child", str(folder), policy, options]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            cwd=settings.BASE_DIR,
            env=environment,
            start_new_session=True,
        )
    return Child(policy, process, log, PATIENCE)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing.")
