"""Child processes in sessions of their own: started with a log file, watched, and ended with all they started.

A session of its own keeps the terminal's Ctrl-C from a child, so that the parent decides in which order and how
patiently it ends; one that is tied ends with its parent even if that is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from chatmemory.runtime import parent_death

POLL_SECONDS = 0.05


class Running(Protocol):
    """A child, however it was made. `patience` is the seconds it is given to end by itself once it is asked to."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def log(self) -> Path:
        """Where it writes."""

    @property
    def patience(self) -> float:
        """See above."""

    @property
    def pid(self) -> int:
        """Of the child, and of its group."""

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number if one killed it."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill_all(self) -> None:
        """Kill what is left of it and of its own children. Returns when it is gone."""


@dataclass(frozen=True)
class Child:
    """A `Running` that is a command of its own."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    patience: float

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number if one killed it."""
        return self.process.poll()

    @property
    def pid(self) -> int:
        return self.process.pid

    def terminate(self) -> None:
        self.process.terminate()

    def kill_all(self) -> None:
        kill_group(self.pid, self.process.wait)


def kill_group(leader: int, wait: Callable[[], object]) -> None:
    """Kill a child and what is left of its own children: they are one process group.

    Returns when it is gone, which `wait` sees to; and when all of them are, in a process that adopts.
    """
    with suppress(ProcessLookupError):  # nothing is left
        os.killpg(leader, signal.SIGKILL)
    wait()
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-leader, 0)


def start(
    name: str,
    command: Sequence[str],
    *,
    log: Path,
    cwd: Path,
    env: Mapping[str, str],
    patience: float,
    is_tied: bool = False,
) -> Child:
    """Start `command` with its output added to the file `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        process = subprocess.Popen(  # noqa: S603  # the caller's own command, no shell
            parent_death.command(command) if is_tied else command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    return Child(name, process, log, patience)


def end(children: Sequence[Running]) -> None:
    """End all at once: ask, wait as long as each may take, then kill whole groups. Returns when nothing is left."""
    asked = time.monotonic()
    for child in children:
        if child.exit_code is None:
            child.terminate()
    for child in children:
        while child.exit_code is None and time.monotonic() - asked < child.patience:
            time.sleep(POLL_SECONDS)
        child.kill_all()
