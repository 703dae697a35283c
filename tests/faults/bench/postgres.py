"""A private PostgreSQL that tests may kill and restart, in a temporary folder that is removed with it.

It is a child of this process and runs as an unprivileged user, because it refuses to run as root. Port and socket are
in its configuration file, so they survive a restart. It is durable as usual: fsync is on.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import psycopg

from tests.support.ports import free_port

How = Literal["immediate", "fast"]
SIGNALS = {"immediate": signal.SIGQUIT, "fast": signal.SIGINT}
"""The signals of `pg_ctl stop -m`. `immediate` is a crash; the next start recovers from it."""
START_SECONDS = 60.0
USERS = ("postgres", "nobody")

CONFIGURATION = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
max_connections = 100
shared_buffers = 32MB
max_wal_size = 256MB
"""


class NoPostgres(Exception):
    """The programs of PostgreSQL are not installed."""


def bindir() -> Path:
    """Return the folder of `initdb` and `postgres`. Raises `NoPostgres`."""
    found = [Path(which).resolve().parent] if (which := shutil.which("initdb")) else []
    if config := shutil.which("pg_config"):
        told = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=True)
        found.append(Path(told.stdout.strip()))
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in found:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoPostgres("PostgreSQL's initdb and postgres are not on this machine.")


class PrivatePostgres:
    """A server in `folder`, which must be empty. `url` names its database `postgres`; no password is needed."""

    def __init__(self, folder: Path) -> None:
        self._bin, self._folder, self._user = bindir(), folder, unprivileged_user()
        self._data = folder / "data"
        self.port = free_port()
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres"
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Initialize its data folder."""
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        how = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions"]
        command = [str(self._bin / "initdb"), "--pgdata", str(self._data), *how]
        made = subprocess.run(command, user=self._user, cwd="/", capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(CONFIGURATION.format(port=self.port, folder=self._folder))

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        with (self._folder / "log").open("ab") as log:
            command = [str(self._bin / "postgres"), "-D", str(self._data)]
            self._process = subprocess.Popen(command, user=self._user, cwd="/", stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            said = (self._folder / "log").read_text()[-2000:]
            assert self._process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.02)

    def stop(self, how: How = "fast") -> None:
        """Stop it and wait for its end. Does nothing if it is not running."""
        if self._process is not None:
            self._process.send_signal(SIGNALS[how])
            self._process.wait(timeout=START_SECONDS)
            self._process = None

    def restart(self, how: How) -> None:
        """Stop it and start it again."""
        self.stop(how)
        self.start()

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def private_postgres() -> Iterator[PrivatePostgres]:
    """Run a server, which is stopped and removed at the end. Raises `NoPostgres`."""
    # Not in pytest's folders, which the unprivileged user may not enter, and short, as a socket's path must be.
    folder = Path(tempfile.mkdtemp(prefix="private-pg-"))
    server = PrivatePostgres(folder)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


def unprivileged_user() -> str | None:
    """Return the user it runs as; None to use that of this process, which is not root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    found = [name for name in USERS if name in known]
    if not found:
        raise NoPostgres("There is no unprivileged user to run PostgreSQL as.")
    return found[0]
