"""A private Redis that tests may kill, freeze and restart: a child of this process that writes nothing to disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from tests.support.ports import free_port

START_SECONDS = 20.0


class NoRedis(Exception):
    """The program is not installed."""


class PrivateRedis:
    """A server in `folder`. `url` names its database 0, whose content is lost whenever the server is killed."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise NoRedis("redis-server is not on this machine.")
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self._command += ["--dir", str(folder)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, "redis-server ended"
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.02)

    def kill(self) -> None:
        """Refuse connections from now on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait(timeout=START_SECONDS)
            self._process = None

    def freeze(self) -> None:
        """Accept connections from now on, but answer nothing."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def revive(self) -> None:
        """Make it answer again, after `kill` or `freeze`."""
        if self._process is None:
            self.start()
        else:
            self._process.send_signal(signal.SIGCONT)

    def client(self) -> Redis:
        """Return a client with which tests inspect it."""
        return Redis.from_url(self.url)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except RedisError:
            return False


@contextmanager
def private_redis() -> Iterator[PrivateRedis]:
    """Run a server, which is removed at the end. Raises `NoRedis`."""
    with tempfile.TemporaryDirectory(prefix="private-redis-") as folder:
        server = PrivateRedis(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()
