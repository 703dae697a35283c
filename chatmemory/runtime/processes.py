"""Child processes in their own sessions: started with a log file, watched, and ended with all processes they started.

A session of its own keeps the terminal's Ctrl-C from a child, so that the parent decides in which order children end
and how long it waits.
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

POLL_SECONDS = 0.05


class Running(Protocol):
    """A child process. `patience`: the seconds that it may take to end when asked to."""

    @property
    def name(self) -> str:
        """The name of the child in messages."""

    @property
    def log(self) -> Path:
        """The file that its output goes to."""

    @property
    def patience(self) -> float:
        """The seconds that it may take to end when asked to."""

    @property
    def pid(self) -> int:
        """The process id of the child, and the id of its process group."""

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative signal number if a signal killed it."""

    def terminate(self) -> None:
        """Ask the child to end."""

    def kill_all(self) -> None:
        """Kill what is left of the child and its own children. Returns when it has ended."""


@dataclass(frozen=True)
class Child:
    """A child process that runs a command; implements `Running`."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    patience: float

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative signal number if a signal killed it."""
        return self.process.poll()

    @property
    def pid(self) -> int:
        return self.process.pid

    def terminate(self) -> None:
        self.process.terminate()

    def kill_all(self) -> None:
        kill_group(self.pid, self.process.wait)


def kill_group(leader: int, wait: Callable[[], object]) -> None:
    """Kill a child and what is left of its own children, which are one process group.

    Returns when the child has ended, for which `wait` waits.
    """
    with suppress(ProcessLookupError):  # nothing is left
        os.killpg(leader, signal.SIGKILL)
    wait()


def start(
    name: str,
    command: Sequence[str],
    *,
    log: Path,
    cwd: Path,
    env: Mapping[str, str],
    patience: float,
) -> Child:
    """Start `command` with its output appended to the file `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        process = subprocess.Popen(  # noqa: S603  # the caller's own command, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    return Child(name, process, log, patience)


def end(children: Sequence[Running]) -> None:
    """End all children at once: ask, wait for their `patience`, then kill whole groups. Returns when all have ended."""
    asked = time.monotonic()
    for child in children:
        if child.exit_code is None:
            child.terminate()
    for child in children:
        while child.exit_code is None and time.monotonic() - asked < child.patience:
            time.sleep(POLL_SECONDS)
        child.kill_all()
