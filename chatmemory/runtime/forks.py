"""Forked child processes: they share the memory of their parent, until one of them writes to it.

Like those of `processes`, each has a session of its own, and ends with its parent. If a thread of the parent held
something at the fork, such as a lock, it would be held forever in the child: so only a process with one thread may
fork, and it must close what it has open before, such as connections.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from chatmemory.runtime import parent_death, processes

TITLE = 15
"""Bytes of a process's name that Linux shows."""


@dataclass(frozen=True)
class Fork:
    """A forked child; implements `processes.Running`."""

    name: str
    process: BaseProcess
    log: Path
    patience: float

    @property
    def pid(self) -> int:
        assert self.process.pid is not None  # it has been started
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        return self.process.exitcode

    def terminate(self) -> None:
        self.process.terminate()

    def kill_all(self) -> None:
        processes.kill_group(self.pid, self.process.join)


def are_safe() -> bool:
    """Whether this process may fork safely. On systems other than Linux, system libraries may not support it."""
    return sys.platform == "linux" and threading.active_count() == 1


def start(name: str, work: Callable[[], None], *, log: Path | None, patience: float, title: str = "") -> Fork:
    """Run `work` in a forked child. Its output is appended to the file `log`, or goes where this process's goes.

    `title` is the name of the child, and of its own children, in `ps`.
    """
    is_up, child_is_up = os.pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_begun, args=(work, os.getpid(), log, title, (is_up, child_is_up))
    )
    process.start()
    os.close(child_is_up)
    os.read(is_up, 1)  # until it has its own process group, it could not be killed with its children
    os.close(is_up)
    return Fork(name, process, log or Path(os.devnull), patience)


def _begun(
    work: Callable[[], None], parent: int, log: Path | None, title: str, pipe: tuple[int, int]
) -> None:
    """Run in the child."""
    os.setsid()
    parent_death.tie(parent)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    _redirect(log)
    with suppress(OSError):
        Path("/proc/self/comm").write_text(title[:TITLE] or "python")
    for end in pipe:
        os.close(end)
    try:
        work()
    except Exception:  # noqa: BLE001  # reported like any other uncaught exception of the process
        sys.excepthook(*sys.exc_info())
        sys.exit(1)


def _redirect(log: Path | None) -> None:
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    if log is None:
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
