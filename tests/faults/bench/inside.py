"""A process beside the product, with its settings and its database, that answers queries, one line of JSON each.

Tests of the bench have their own database, which pytest's Django does not know. Run as a script, this module reads
queries from standard input and writes answers to standard output. `Inside` is the test's end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


class Away(Exception):
    """The database does not answer."""


class Inside:
    """Start such a process with the environment `env` and the log file `log`, and send it queries."""

    def __init__(self, env: Mapping[str, str], log: Path) -> None:
        self._lock = threading.Lock()
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.bench.inside"],
                cwd=ROOT,
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )

    def ask(self, question: str, *arguments: Any) -> Any:
        """Return the answer. Raises `Away`. Other errors end the process and are in its log."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps([question, *arguments]) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        assert line, f"the process inside ended at {question!r}"
        answered, answer = json.loads(line)
        if not answered:
            raise Away(answer)
        return answer

    def close(self) -> None:
        """End the process."""
        with self._process:
            self._process.kill()


def main() -> None:
    """Answer queries until the input ends."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    from django.db import DatabaseError, InterfaceError, connection

    verbs = _verbs()
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        try:
            answer = [True, verbs[verb](*arguments)]
        except (DatabaseError, InterfaceError) as exc:
            answer = [False, f"{type(exc).__name__}: {exc}"]
        finally:
            connection.close()
        print(json.dumps(answer), flush=True)


def _verbs() -> dict[str, Callable[..., Any]]:
    """Return the queries by name. Requires that Django is set up."""
    from dataclasses import asdict

    from django.contrib.auth.models import User
    from knox.models import AuthToken

    from conversations.interchange.read import ImportedChat, ImportedMessage
    from conversations.interchange.to_rows import import_chat
    from memory import queue
    from memory.models import SummaryRevision
    from memory.worker import sweep
    from tests.faults.bench import canaries, checks

    def token(user: str) -> str:
        return str(AuthToken.objects.create(User.objects.get_or_create(username=user)[0])[1])

    def imported(user: str, turns: list[list[str]]) -> str:
        said: list[ImportedMessage] = []
        for question, answer in turns:
            said.append(ImportedMessage("user", question))
            said.append(ImportedMessage("assistant", answer, reply_to=len(said) - 1))
        return str(import_chat(User.objects.get(username=user), ImportedChat(messages=said)).pk)

    return {
        "token": token,
        "import": imported,
        "sweep": lambda: asdict(sweep.sweep()),
        "enqueue_sweep": queue.enqueue_sweep,
        "unsettled": checks.unsettled,
        "canaries": canaries.found_in_tables,
        "revisions": SummaryRevision.objects.count,
        "problems": lambda path: checks.problems(json.loads(Path(path).read_text())),
    }


if __name__ == "__main__":
    main()
