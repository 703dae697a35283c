"""The fault bench: two servers, a worker and the fake upstream on one database, in processes that may die anytime.

A process that dies is restarted at once, a server on the same port, as a service supervisor would. `Bench` injects
the faults and supervises the processes; what users do is in `people`, and what must hold in `checks`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import httpx

from tests.faults.bench.inside import Away, Inside
from tests.faults.bench.journal import Journal
from tests.faults.bench.people import Person
from tests.support.fakes.upstream import FakeUpstream
from tests.support.fault_points import faults
from tests.support.ports import free_port
from tests.support.processes import SERVER, START_SECONDS, Child, Product
from tests.support.waiting import wait_for

User = TypeVar("User", bound="Named")

SERVERS = ("one", "two")
WORKER = "worker"
TICK = 0.02
VARIANTS = {
    "quick": {"model": "normal"},
    "slow": {"model": "normal?deltas=60&rate=30"},
    "endless": {"model": "normal?deltas=2000&rate=20"},
    "brief": {"model": "normal?text=Noted, thank you."},
}
"""How the upstream answers: at once, in two seconds, for longer than any client waits, and with three words."""
ENV = {
    "LOG_LEVEL": "INFO",
    "MODEL_VARIANTS": json.dumps(VARIANTS),
    "DEFAULT_MODEL_VARIANT": "quick",
    # A fold is due every few turns, and the leases of a dead process expire soon.
    "MEMORY_PROMPT_TOKEN_BUDGET": "900",
    "MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "600",
    "MEMORY_SUMMARY_TOKEN_CAP": "300",
    "MEMORY_MIN_RETAINED": "0",  # the fake's summaries are only codes: each would be asked for twice
    "MEMORY_FOLD_LEASE_SECONDS": "2",
    "MEMORY_FOLD_BACKOFF_SECONDS": "0.1",
    "REPLY_LEASE_SECONDS": "3",
}


class Bench(Product):
    """The product in supervised processes. Create its tables first (`manage("migrate")`), then call `begin`."""

    def __init__(self, folder: Path, database_url: str, fake: FakeUpstream) -> None:
        super().__init__(folder, database_url, **ENV)
        self.fake = fake
        self.use(fake)
        fake.behave("normal?tokens=60", lane="complete")
        self.ports = {name: free_port() for name in SERVERS}
        self._running: dict[str, Child] = {}
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor")

    def begin(self) -> None:
        """Start everything and wait until it is ready."""
        self.inside = Inside(self.environment({}), self.folder / "inside.log")
        for name in (*SERVERS, WORKER):
            self._restart(name)
        self._supervisor.start()
        self.wait_until_up()

    def stop(self) -> None:
        self._ended.set()
        if self._running:
            self._supervisor.join()
            self.inside.close()
        for child in self._running.values():
            child.kill_all()
        super().stop()

    def order(self, name: str, point: str, n: int, what: str) -> Path:
        """Order a fault for the n-th time the process reaches `point`. Return the file that appears once it struck."""
        struck = self.folder / f"struck-{time.monotonic_ns()}"
        whole = self.folder / f"{name}.next"
        whole.write_text(f"{point}:{n}:{what}:{struck}")
        whole.rename(self._order_file(name))
        return struck

    def strike(self, name: str, *, gently: bool = False) -> None:
        """End that process by SIGKILL, or gently by SIGTERM, as a deployment does. The supervisor restarts it."""
        with self._lock:
            if gently:
                self._running[name].process.terminate()
            else:
                self._running[name].kill_all()

    def wait_until_up(self, names: Iterable[str] = (*SERVERS, WORKER)) -> None:
        """Wait until these servers answer, and until the worker has shown that it runs tasks."""
        for name in names:
            wait_for(partial(self._is_up, name), f"{name} is up", timeout=2 * START_SECONDS)

    def person(self, name: str, journal: Journal, *, roams: bool = False) -> Person:
        """Create a user with a token."""
        urls = [f"http://127.0.0.1:{port}" for port in self.ports.values()]
        return Person(name, self.ask("token", name), urls, journal, roams=roams)

    def ask(self, question: str, *arguments: Any) -> Any:
        """Query the process inside, repeatedly until the database answers."""

        def answer() -> list[Any] | None:
            try:
                return [self.inside.ask(question, *arguments)]
            except Away:
                return None

        return wait_for(answer, f"an answer to {question!r}", timeout=60)[0]

    def check(self, journal: Journal, *, imported: Iterable[str] = ()) -> None:
        """Wait until the users have no pending work, sweeping like the schedule. Nothing must be wrong then."""
        users = sorted({turn.user for turn in journal.turns})
        left: list[str] = []

        def settled() -> bool:
            left[:] = self.ask("unsettled", users)
            if left:
                self.ask("sweep")
            return not left

        try:
            wait_for(settled, "everything at rest", timeout=60)
        except AssertionError as exc:
            raise AssertionError(f"{exc}\n" + "\n".join(left)) from None
        case = {
            "users": users,
            "turns": [turn.to_json() for turn in journal.turns],
            "imported": list(imported),
            "prompts": [(request.said[-1][1], request.text) for request in self.fake.calls("stream")],
            "inputs": [request.text for request in self.fake.calls("complete")],
        }
        path = self.folder / "case.json"
        path.write_text(json.dumps(case))
        assert [*journal.problems, *self.ask("problems", str(path)), *self.fake.faults] == []

    def _is_up(self, name: str) -> bool:
        time.sleep(5 * TICK)  # so that polling adds no load
        port = self.ports[SERVERS[0] if name == WORKER else name]
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5)
        except httpx.TransportError:
            return False
        if answer.status_code == 200:
            return True
        return name != WORKER and set(answer.json()["error"]["details"]) == {"worker"}

    def _order_file(self, name: str) -> Path:
        """The file in which that process looks for the next fault to suffer."""
        return self.folder / f"{name}.order"

    def _restart(self, name: str) -> None:
        server = ["-m", *SERVER, "--no-access-log", "--port", str(self.ports.get(name))]
        command = [sys.executable, *(["manage.py", "worker"] if name == WORKER else server)]
        env = self.environment({} if name == SERVERS[1] else faults(self._order_file(name)))
        log = self.folder / f"{name}.log"
        self._running[name] = Child.start(name, command, log=log, env=env)

    def _supervise(self) -> None:
        while not self._ended.wait(TICK):
            with self._lock:
                for name, child in self._running.items():
                    if child.exit_code is not None:
                        self._restart(name)


class Named(Protocol):
    """A user with a name for their thread."""

    name: str


class Load:
    """Many users, each in a thread, who act again and again until the block ends; then the first error is raised."""

    def __init__(self, people: Sequence[User], act: Callable[[User], None]) -> None:
        self._stopped = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(one, act), name=one.name) for one in people]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _run(self, person: User, act: Callable[[User], None]) -> None:
        try:
            while not self._stopped.is_set():
                act(person)
        except BaseException as exc:  # noqa: BLE001  # raised again by the test
            self._errors.append(exc)
