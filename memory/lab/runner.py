"""Running talks under several policies, each in a child process on a scratch database in a temporary folder.

The children's settings are this process's environment, except for the database, so that the server's own is never
touched. A child is `python -m memory.lab.runner FOLDER POLICY`: it reads `work.json`, migrates its database, writes a
byte to standard output after each turn, so that the parent sees the progress and a child ends when its parent has,
and writes its runs to `POLICY.json`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import django
from django.conf import settings
from pydantic import TypeAdapter

from memory.lab.conversation import Conversation
from memory.lab.measures import Run

WORK = "work.json"
LOOK_SECONDS = 0.2
"""Seconds between two looks at how far the children are."""
NICE = 5
"""Steps of priority of the children below this process: a server on the same machine comes first."""

Child = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class LabWork:
    """What a child is to play: talks, in chats with those of `options` that its policy has."""

    talks: tuple[Conversation, ...]
    options: dict[str, Any]


class LabError(Exception):
    """A policy could not be run. The message is a sentence for people, and may quote the talk."""


def run(
    talks: Sequence[Conversation],
    policies: Sequence[str],
    *,
    tell: Callable[[int], None] = lambda _turns: None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, list[Run]]:
    """Play `talks` under each of `policies`. Return the runs by policy, in the order of the talks.

    `options` are those of the chats, under the policies that have them. `tell` is called with the number of turns that
    are newly done. Raises `LabError`. After any error, no child and no file is left.
    """
    with TemporaryDirectory(prefix="chatmemory-lab-") as name:
        folder = Path(name)
        work = LabWork(tuple(talks), dict(options))
        (folder / WORK).write_bytes(TypeAdapter(LabWork).dump_json(work))
        children: dict[str, Child] = {}
        try:
            for policy in policies:
                children[policy] = _start(folder, policy)
            _watch(children, folder, tell)
        finally:
            for process in children.values():
                process.kill()
                process.communicate()
        read = TypeAdapter(list[Run]).validate_json
        return {policy: read((folder / f"{policy}.json").read_bytes()) for policy in policies}


def _start(folder: Path, policy: str) -> Child:
    environment = {
        **os.environ,
        "DATABASE_URL": f"sqlite:///{folder / policy}.sqlite3",
        "RATE_LIMITS": "off",  # turns played here count against nobody's limits
        "LOG_LEVEL": "ERROR",
    }
    with (folder / f"{policy}.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603  # our own module, no shell
            [sys.executable, "-m", "memory.lab.runner", str(folder), policy],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=settings.BASE_DIR,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the parent, which then ends them
        )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    return process


def _watch(children: Mapping[str, Child], folder: Path, tell: Callable[[int], None]) -> None:
    """Wait until all children have ended. Raises `LabError` as soon as one fails."""
    running = set(children)
    while running:
        time.sleep(LOOK_SECONDS)
        for policy in sorted(running):
            process = children[policy]
            ended = process.poll()
            assert process.stdout is not None
            tell(len(process.stdout.read() or b""))
            if ended:
                raise LabError(f"The policy {policy!r} could not be run: {_last_line(folder, policy)}")
            if ended == 0:
                running.remove(policy)


def _last_line(folder: Path, policy: str) -> str:
    lines = (folder / f"{policy}.log").read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing.")


def _play(folder: Path, policy: str) -> None:
    """Play all talks under `policy`, in the child."""
    os.nice(NICE)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    from django.core.management import call_command  # needs the settings

    from memory.lab.replay import play

    call_command("migrate", verbosity=0, interactive=False)
    work = TypeAdapter(LabWork).validate_json((folder / WORK).read_bytes())
    runs = [play(talk, policy, _tell, work.options) for talk in work.talks]
    (folder / f"{policy}.json").write_bytes(TypeAdapter(list[Run]).dump_json(runs))


def _tell() -> None:
    sys.stdout.write(".")
    sys.stdout.flush()


if __name__ == "__main__":
    _play(Path(sys.argv[1]), sys.argv[2])
