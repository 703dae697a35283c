"""Running talks under several policies, each in a child process on a scratch database in a temporary folder.

The children's settings are this process's environment, except for the database, so that the server's own is never
touched. A child sends None after each turn, and at last its runs, or a sentence if it could not play.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import django

from memory.lab.conversation import Conversation
from memory.lab.measures import Run

NICE = 5
"""Steps of priority of the children below this process: a server on the same machine comes first."""


class LabError(Exception):
    """A policy could not be run. The message is a sentence for people, and may quote the talk."""


def run(
    talks: Sequence[Conversation],
    policies: Sequence[str],
    *,
    tell: Callable[[int], None] = lambda _turns: None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, list[Run]]:
    """Play `talks` under each of `policies`. Return the runs by policy, in the order of the talks.

    `options` are those of the chats, under the policies that have them. `tell` is called with the number of turns that
    are newly done. Raises `LabError`. After any error, no child and no file is left.
    """
    spawn = multiprocessing.get_context("spawn")  # a child reads the settings anew
    runs: dict[str, list[Run]] = {}
    children: list[BaseProcess] = []
    playing: dict[Connection, str] = {}
    with TemporaryDirectory(prefix="chatmemory-lab-") as folder:
        try:
            for policy in policies:
                ours, theirs = spawn.Pipe(duplex=False)
                work = (theirs, f"{folder}/{policy}.sqlite3", policy, list(talks), dict(options or {}))
                children.append(spawn.Process(target=_play, args=work, daemon=True))
                children[-1].start()
                theirs.close()  # so that the pipe ends with the child
                playing[ours] = policy
            while playing:
                for pipe in cast("list[Connection]", wait(list(playing))):
                    try:
                        message = pipe.recv()
                    except EOFError:
                        message = "it ended without a word."
                    if message is None:
                        tell(1)
                    elif isinstance(message, str):
                        raise LabError(f"The policy {playing[pipe]!r} could not be run: {message}")
                    else:
                        runs[playing.pop(pipe)] = message
        finally:
            for child in children:
                child.kill()
                child.join()
    return {policy: runs[policy] for policy in policies}


def _play(pipe: Connection, database: str, policy: str, talks: list[Conversation], options: dict[str, Any]) -> None:
    """Play all talks under `policy`, in the child. It ends when its parent has: the pipe is broken then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends the child
    os.nice(NICE)
    os.environ |= {
        "DATABASE_URL": f"sqlite:///{database}",
        "RATE_LIMITS": "off",  # turns played here count against no limits
        "LOG_LEVEL": "ERROR",
        "PROMETHEUS_MULTIPROC_DIR": str(Path(database).parent),  # else the child makes a folder that nothing removes
    }
    try:
        django.setup()
        from django.core.management import call_command  # needs the settings

        from memory.lab.replay import play

        call_command("migrate", verbosity=0, interactive=False)
        pipe.send([play(talk, policy, lambda: pipe.send(None), options) for talk in talks])
    except Exception as exc:  # noqa: BLE001  # whatever it is, the parent tells it
        pipe.send(" ".join(f"{exc}".split()) or type(exc).__name__)
