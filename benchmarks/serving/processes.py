"""The processes of a benchmark: the fake upstream and a real server, on free ports of 127.0.0.1, ended on exit."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_port

BOUNDED = "chatmemory.http_protocol:HttpProtocol"
"""The HTTP protocol of the command in docs/deploy.md."""
START_SECONDS = 30.0
TICK = 0.05


@dataclass(frozen=True, slots=True)
class Running:
    """A process that answers on a port."""

    port: int
    pid: int


@contextmanager
def fake_upstream(behaviour: str) -> Iterator[Running]:
    """Run the tests' fake OpenAI server, streaming as `behaviour` says."""
    port = free_port()
    with _process(
        [sys.executable, "-m", "tests.support.fakes.upstream", "--port", str(port), "--stream", behaviour],
        port,
    ) as fake:
        yield fake


@contextmanager
def pacemaker(*options: str) -> Iterator[Running]:
    """Run the upstream of `benchmarks.serving.pacemaker`."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.serving.pacemaker", "--port", str(port), *options]
    with _process(command, port) as upstream:
        yield upstream


@contextmanager
def sink() -> Iterator[Running]:
    """Run the upstream of `benchmarks.serving.sink`."""
    port = free_port()
    with _process([sys.executable, "-m", "benchmarks.serving.sink", "--port", str(port)], port) as upstream:
        yield upstream


@contextmanager
def slow_summarizer() -> Iterator[Running]:
    """Run the upstream of `benchmarks.serving.summarizer`."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.serving.summarizer", "--port", str(port)]
    with _process(command, port) as upstream:
        yield upstream


@contextmanager
def server(
    upstream: Running,
    log: Path,
    http: str = BOUNDED,
    options: Sequence[str] = (),
    *,
    root: Path | None = None,
    database_url: str = "",
    limits: bool = False,
) -> Iterator[Running]:
    """Run one server process as `make run` starts it, except that its logs go to a file.

    It is the one of this checkout, or of `root`, on this process's database, or on another. `http` is the value of
    uvicorn's option of that name; `options` are more of them. `limits`: whether users have limits.
    """
    port = free_port()
    settings = {
        "OPENAI_BASE_URL": f"http://127.0.0.1:{upstream.port}/v1",
        "OPENAI_API_KEY": "sk-benchmark",
        "RATE_LIMITS": "on" if limits else "off",
        "LOG_FORMAT": "json",
        "DATABASE_URL": database_url or os.environ["DATABASE_URL"],
    }
    command = [sys.executable, "-m", "uvicorn", "chatmemory.asgi:application"]
    command += ["--http", http, *options, "--port", str(port), "--no-access-log"]
    with _process(command, port, settings, log, root) as started:
        yield started


@contextmanager
def bare_view(upstream: Running) -> Iterator[Running]:
    """Run one server process of `benchmarks.serving.bare_view`."""
    port = free_port()
    settings = {"OPENAI_BASE_URL": f"http://127.0.0.1:{upstream.port}/v1"}
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "benchmarks.serving.bare_view:application",
        "--lifespan",
        "off",
    ]
    with _process([*command, "--port", str(port), "--no-access-log"], port, settings) as started:
        yield started


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process, in MiB."""
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(told.stdout) / 1024


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used so far, in seconds of one core. Linux only."""
    with Path(f"/proc/{pid}/stat").open() as file:
        after_name = file.read().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """Return a process and its children."""
    told = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [pid, *map(int, told.stdout.split())]


@contextmanager
def _process(
    command: list[str],
    port: int,
    settings: dict[str, str] | None = None,
    log: Path | None = None,
    root: Path | None = None,
) -> Iterator[Running]:
    with Path(log or os.devnull).open("ab") as out:
        env = {**os.environ, **(settings or {})}
        process = subprocess.Popen(command, cwd=root, env=env, stdout=out, stderr=out)
        try:
            _wait_for(port, process)
            yield Running(port, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"a process of the benchmark ended with {process.returncode} instead of answering")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(TICK)
        else:
            return
    raise RuntimeError("a process of the benchmark did not answer in time")
