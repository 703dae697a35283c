"""A process beside the product, with its settings and its database, that answers queries, one line of JSON each.

Tests of the bench have their own database, which pytest's Django does not know. Run as a script, this module reads
queries from standard input and writes answers to standard output. `Inside` is the test's end.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.processes import ROOT


class Away(Exception):
    """The database does not answer."""


class Inside:
    """Start such a process with the environment `env` and the log file `log`, and send it queries."""

    def __init__(self, env: Mapping[str, str], log: Path) -> None:
        self._lock = threading.Lock()
        with log.open("ab") as file:
            shell = [sys.executable, "manage.py", "shell", "-v", "0"]
            self._process = subprocess.Popen(
                [*shell, "-c", f"from {__name__} import main; main()"],
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
    from django.contrib.auth.models import User
    from knox.models import AuthToken

    from memory import queue
    from memory.models import SummaryRevision
    from memory.worker import sweep
    from tests.faults.bench import checks
    from tests.support.factories import add_turns, make_chat, make_user

    def imported(user: str, turns: list[tuple[str, str]]) -> str:
        chat = make_chat(make_user(user))
        add_turns(chat, turns)
        return str(chat.pk)

    return {
        "token": lambda user: AuthToken.objects.create(User.objects.get_or_create(username=user)[0])[1],
        "import": imported,
        "sweep": lambda: str(sweep.sweep()),
        "enqueue_sweep": queue.enqueue_sweep,
        "unsettled": checks.unsettled,
        "revisions": SummaryRevision.objects.count,
        "problems": lambda path: checks.problems(json.loads(Path(path).read_text())),
    }
