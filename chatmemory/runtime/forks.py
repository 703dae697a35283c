"""Child processes that are forks: they share what this process has loaded, until one of them writes to it.

Like those of `processes`, each has a session of its own, and it ends with its parent. What a thread of the parent held
at that moment, a lock for one, would be held for ever in the child: so only a process with one thread may fork, and
what it has open, connections for one, is to be closed before.
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
"""Bytes that Linux shows of a process's name."""


@dataclass(frozen=True)
class Fork:
    """A `processes.Running`."""

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
    """Whether this process may fork. Elsewhere than on Linux, the system's own libraries may not like it."""
    return sys.platform == "linux" and threading.active_count() == 1


def start(name: str, work: Callable[[], None], *, log: Path | None, patience: float, title: str = "") -> Fork:
    """Do `work` in a child with its output added to the file `log`, or going where this process's goes.

    `title` is what `ps` calls it and those that it forks.
    """
    is_up, child_is_up = os.pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_begun, args=(work, os.getpid(), log, title, (is_up, child_is_up))
    )
    process.start()
    os.close(child_is_up)
    os.read(is_up, 1)  # until it has a group of its own, nobody could end it with its children
    os.close(is_up)
    return Fork(name, process, log or Path(os.devnull), patience)


def _begun(
    work: Callable[[], None], parent: int, log: Path | None, title: str, pipe: tuple[int, int]
) -> None:
    """In the child."""
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
    except Exception:  # noqa: BLE001  # told as the process tells of all that nobody caught
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
