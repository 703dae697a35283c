"""A Redis of one's own, to be killed, frozen and started again: a child of this process that stores nothing on disk."""

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
    """There is no program to make one with."""


class PrivateRedis:
    """A server in `folder`; `url` is its database 0, which is lost whenever it is killed."""

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
        """From now on, connections are refused."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait(timeout=START_SECONDS)
            self._process = None

    def freeze(self) -> None:
        """From now on, connections are taken and nothing is answered."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def revive(self) -> None:
        """Let it answer again, whatever was done to it."""
        if self._process is None:
            self.start()
        else:
            self._process.send_signal(signal.SIGCONT)

    def client(self) -> Redis:
        """A client for tests to look in."""
        return Redis.from_url(self.url)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except RedisError:
            return False


@contextmanager
def private_redis() -> Iterator[PrivateRedis]:
    """A running one, which is gone in the end. Raises `NoRedis`."""
    with tempfile.TemporaryDirectory(prefix="private-redis-") as folder:
        server = PrivateRedis(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()
