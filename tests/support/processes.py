"""The product as separate processes: a server and workers on one database, their logs, and their end.

They run on the database that pytest made (`here()`), so a test can look into the tables directly; what runs outside
pytest uses a scratch database that is made and dropped here (`scratch()`). Every process leads its own group, so that
everything it starts ends with it. No other variable of the caller's environment that chatmemory reads reaches them.
This module does not know what a test expects of the product.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from knox.models import AuthToken

from chatmemory.management.commands import serve
from tests.support.fakes.upstream import FakeUpstream
from tests.support.fixed_settings import FIXED, VARIABLE
from tests.support.live_server import Client
from tests.support.ports import free_port
from tests.support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-test-canary"
"""The key that the processes use for the fake upstream: it must never appear in a log."""
SERVER = serve.SERVER
"""What `chatmemory serve` becomes."""

_OURS = re.compile(
    r"(CHATMEMORY|DJANGO|DATABASE|REDIS|OPENAI|MEMORY|REPLY|SUMMARIZER|Q|RATE|LIMIT|LOG|MODEL|DEFAULT|MESSAGE|INSTRUCTIONS"
    r"|REQUEST|METRICS|SOURCES|SWEEP|WORKER|WEBHOOK)_"
)
_STANDARD = {
    # Set even if empty, so that a `.env` file of the checkout has no effect.
    "OPENAI_API_KEY": "",
    "OPENAI_BASE_URL": "",
    "RATE_LIMITS": "off",
    "LOG_FORMAT": "json",
    "LOG_LEVEL": "DEBUG",
    "PYTHONUNBUFFERED": "1",
}
NOT_READY = "Service Unavailable: /readyz"
"""What a server logs when it says that it is not ready, as it often does while starting."""
START_SECONDS = 180.0


@dataclass(frozen=True)
class Child:
    """A child process with its output in a file, in a session of its own: the process leads its own group."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str], root: Path = ROOT) -> Child:
        """Start `command` in the checkout `root`, with its output appended to the file `log`."""
        with log.open("ab") as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=root,
                env=env,
                start_new_session=True,
            )
        return cls(name, process, log)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative signal number if a signal killed it."""
        return self.process.poll()

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill_all(self) -> None:
        """Kill what is left of the child and of its own children. Returns when it has ended."""
        with suppress(ProcessLookupError):  # nothing is left
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


class Product:
    """Processes of chatmemory on one database. Leaving the context ends them all.

    `env` overrides the standard settings, and `root` is the checkout that runs. Change them before a process starts.
    """

    def __init__(self, folder: Path, database_url: str, **env: str) -> None:
        self.folder, self.root = folder, ROOT
        self.env = {"DATABASE_URL": database_url, "DJANGO_SECRET_KEY": settings.SECRET_KEY, **env}
        self.children: list[Child] = []
        self.clients: list[Client] = []
        self.urls: dict[str, str] = {}
        """The URL of each server, by its name."""
        self.expected: set[str] = set()
        """Errors that this test expects; any other logged error fails it."""

    def __enter__(self) -> Product:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def use(self, fake: FakeUpstream) -> None:
        """Make all processes started from now on use this upstream."""
        self.env |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": fake.base_url}

    def server(self, *options: str, **env: str) -> Child:
        """Start a server and wait until it is ready. `url` is then its URL."""
        port = free_port()
        command = [*SERVER, "--port", str(port), "--no-access-log"]
        child = self._start("server", [sys.executable, "-m", *command, *options], env)
        self.urls[child.name] = f"http://127.0.0.1:{port}"
        wait_for(lambda: self._ready(child), "a server that is ready", timeout=START_SECONDS)
        return child

    def worker(self, **env: str) -> Child:
        """Start a worker. It is ready when it does something; wait for that."""
        return self._start("worker", [sys.executable, "manage.py", "worker"], env)

    def cluster(self, **env: str) -> Child:
        """Start django-q2's own cluster."""
        return self._start("worker", [sys.executable, "manage.py", "qcluster"], env)

    def command(self, *arguments: str, **env: str) -> Child:
        """Start a management command, and do not wait for its end."""
        return self._start(arguments[0], [sys.executable, "manage.py", *arguments], env)

    def manage(self, *arguments: str, **env: str) -> str:
        """Run a management command to its end and return its output. Raise `AssertionError` if it fails."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=self.root,
            env=self.environment(env),
            capture_output=True,
            text=True,
            timeout=300,
        )
        with (self.folder / "manage.log").open("a") as log:
            log.write(done.stderr)
        assert done.returncode == 0, f"{arguments[0]} ended with {done.returncode}:\n{done.stderr[-3000:]}"
        return done.stdout

    @property
    def url(self) -> str:
        """The URL of the newest server."""
        return list(self.urls.values())[-1]

    def client(self, user: str = "alice") -> Client:
        """Return a client of the newest server with a new token of that user, who is created if necessary."""
        owner, _ = User.objects.get_or_create(username=user)
        token = str(AuthToken.objects.create(owner)[1])
        self.clients.append(Client(self.url, token))
        return self.clients[-1]

    def kill(self, child: Child) -> None:
        """Send SIGKILL to its whole group, so that nothing can clean up, and wait for its end."""
        child.kill_all()

    def stop(self) -> None:
        """End everything that was started, at once; return when it is gone."""
        for client in self.clients:
            client.http.close()
        for child in self.children:
            self.kill(child)

    def log_text(self) -> str:
        """Return all logs: the whole output of started processes, and the error output of commands."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def logged(self, event: str = "", *, name: str = "") -> list[dict[str, Any]]:
        """Return what the processes logged under that constant text; with `name`, only those of that name.

        Lines that are not JSON are left out; `test_logs` checks that there are none.
        """
        texts = [path.read_text() for path in sorted(self.folder.glob(f"{name or ''}*.log"))]
        lines = [line for text in texts for line in text.splitlines() if line.startswith("{")]
        read = [json.loads(line) for line in lines if line.endswith("}")]
        return [line for line in read if not event or line["event"] == event]

    def errors(self) -> list[dict[str, Any]]:
        """Return the errors that were logged and not expected."""
        found = [line for line in self.logged() if line["level"] in ("error", "critical")]
        return [line for line in found if line["event"] not in {*self.expected, NOT_READY}]

    def _start(self, name: str, command: list[str], env: Mapping[str, str]) -> Child:
        name = f"{name}-{len(self.children) + 1}"
        log = self.folder / f"{name}.log"
        self.children.append(Child.start(name, command, log=log, env=self.environment(env), root=self.root))
        return self.children[-1]

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process that is started with `env`."""
        outside = {key: value for key, value in os.environ.items() if not _OURS.match(key)}
        given = {**outside, **_STANDARD, **self.env, **env}
        if fixed := {name: given.pop(name) for name in FIXED if name in given}:
            given |= {"DJANGO_SETTINGS_MODULE": "tests.support.settings", VARIABLE: json.dumps(fixed)}
        return given

    def _ready(self, child: Child) -> bool:
        """Whether everything that the server itself needs is ready. A worker may come later or never; so may tables."""
        assert child.exit_code is None, f"{child.name} ended:\n{child.log.read_text()[-3000:]}"
        try:
            answer = httpx.get(f"{self.urls[child.name]}/readyz", timeout=5)
        except httpx.TransportError:
            return False
        return answer.status_code == 200 or set(answer.json()["error"]["details"]) <= {"worker", "migrations"}


def here() -> str:
    """Return the URL of the database that this process's Django uses, which under pytest is the test database."""
    found = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{found['NAME']}"
    return urlunsplit(urlsplit(settings.DATABASE_URL)._replace(path=f"/{found['NAME']}"))


@contextmanager
def scratch(folder: Path, postgres_url: str = "") -> Iterator[str]:
    """Yield the URL of a new, empty database: a file in `folder`, or one on the server of `postgres_url`.

    The latter is dropped at the end. It has no tables yet: `Product.manage("migrate")` makes them.
    """
    if not postgres_url:
        yield f"sqlite:///{folder / 'scratch.sqlite3'}"
        return
    name = f"chatmemory_scratch_{secrets.token_hex(4)}"
    with psycopg.connect(_admin_url(postgres_url), autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield urlunsplit(urlsplit(postgres_url)._replace(path=f"/{name}"))
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _admin_url(url: str) -> str:
    return urlunsplit(urlsplit(url)._replace(scheme="postgresql", path="/postgres", query=""))
