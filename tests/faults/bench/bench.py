"""The fault bench: two servers, a worker and the fake upstream on one database, in processes that may die anytime.

A process that dies is restarted at once, a server on the same port, as a service supervisor would. `Bench` injects
the faults and supervises the processes; what users do is in `people`, and what must hold in `checks`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from chatmemory.runtime import processes
from chatmemory.runtime.processes import Child
from tests.faults.bench.inside import Away, Inside
from tests.faults.bench.journal import Journal
from tests.faults.bench.people import Person
from tests.support.fakes.upstream import FakeUpstream
from tests.support.ports import free_port
from tests.support.process_tree import descendants_of, is_alive
from tests.support.processes import ROOT, SERVER, START_SECONDS, Product, wait_for

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


@dataclass
class Slot:
    """A process that must run, and how to start it."""

    name: str
    command: list[str]
    env: dict[str, str]
    child: Child


class Bench(Product):
    """The product in supervised processes. Create its tables first (`manage("migrate")`), then call `begin`."""

    def __init__(self, folder: Path, database_url: str, fake: FakeUpstream, **env: str) -> None:
        super().__init__(folder, database_url, **{**ENV, **env})
        self.fake = fake
        self.use(fake)
        fake.behave("normal?tokens=60", lane="complete")
        self.slots: dict[str, Slot] = {}
        self.ports = dict.fromkeys(SERVERS, 0)
        self.restarts = 0
        self._lock = threading.RLock()
        self._ended = threading.Event()

    def begin(self) -> None:
        """Start everything and wait until it is ready."""
        self.inside = Inside(self.environment({}), self.folder / "inside.log")
        for name in SERVERS:
            self.ports[name] = free_port()
            options = ["--no-access-log", "--port", str(self.ports[name])]
            self._put(name, ["-m", *SERVER, *options])
        self._put(WORKER, ["manage.py", "worker"])
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor")
        self._supervisor.start()
        self.wait_until_up()

    def stop(self) -> None:
        self._ended.set()
        if self.slots:
            self._supervisor.join()
            self.inside.close()
        for slot in self.slots.values():
            _kill(slot.child)
        super().stop()

    def order_file(self, name: str) -> Path:
        """The file in which that process looks for the next fault to suffer."""
        return self.folder / f"{name}.order"

    def order(self, name: str, point: str, n: int, what: str) -> Path:
        """Order a fault for the n-th time the process reaches `point`. Return the file that appears once it struck."""
        struck = self.folder / f"struck-{time.monotonic_ns()}"
        whole = self.folder / f"{name}.next"
        whole.write_text(f"{point}:{n}:{what}:{struck}")
        whole.rename(self.order_file(name))
        return struck

    def strike(self, name: str) -> None:
        """Kill that process and all its descendants by SIGKILL. The supervisor restarts it."""
        with self._lock:
            slot = self.slots[name]
            _kill(slot.child)
            self._restart(slot)

    def retire(self, name: str) -> None:
        """Stop that process by SIGTERM, as a deployment does. The supervisor restarts it once it has ended."""
        with self._lock:
            self.slots[name].child.process.terminate()

    def is_up(self, name: str) -> bool:
        """Whether that process works: a server answers, or the worker has shown that it runs tasks."""
        try:
            answer = httpx.get(f"{self.base(SERVERS[0] if name == WORKER else name)}/readyz", timeout=5)
        except httpx.TransportError:
            return False
        if answer.status_code == 200:
            return True
        return name != WORKER and set(answer.json()["error"]["details"]) == {"worker"}

    def wait_until_up(self, names: Iterable[str] = (*SERVERS, WORKER)) -> None:
        """Wait until these processes work."""
        for name in names:
            wait_for(partial(self._looks_up, name), f"{name} is up", timeout=2 * START_SECONDS)

    def _looks_up(self, name: str) -> bool:
        """`is_up` after a short pause, so that polling does not add load."""
        time.sleep(5 * TICK)
        return self.is_up(name)

    def base(self, server: str) -> str:
        """The address of that server."""
        return f"http://127.0.0.1:{self.ports[server]}"

    def person(self, name: str, journal: Journal, *, roams: bool = False) -> Person:
        """Create a user with a token."""
        urls = [self.base(one) for one in SERVERS]
        return Person(name, self.ask("token", name), urls, journal, roams=roams)

    def ask(self, question: str, *arguments: Any) -> Any:
        """Query the process inside, repeatedly until the database answers."""

        def answer() -> list[Any] | None:
            try:
                return [self.inside.ask(question, *arguments)]
            except Away:
                return None

        return wait_for(answer, f"an answer to {question!r}", timeout=60)[0]

    def settle(self, users: list[str], *, timeout: float = 60.0) -> float:
        """Wait until these users' chats have no pending work, sweeping like the schedule. Return the seconds waited."""
        begun = time.monotonic()
        left: list[str] = []

        def settled() -> bool:
            nonlocal left
            if left := self.ask("unsettled", users):
                self.ask("sweep")
            return not left

        try:
            wait_for(settled, "everything at rest", timeout=timeout)
        except AssertionError as exc:
            raise AssertionError(f"{exc}\n" + "\n".join(left)) from None
        return time.monotonic() - begun

    def problems(
        self,
        journal: Journal,
        *,
        imported: Iterable[str] = (),
        prompts: Iterable[tuple[str, str]] | None = None,
    ) -> list[str]:
        """Return everything that is wrong with what these users' turns left behind. The chats must have settled.

        `prompts` are the prompts of replies, as (question, text), if the fake has not kept them.
        """
        users = sorted({turn.user for turn in journal.turns})
        if prompts is None:
            prompts = [(request.said[-1][1], request.text) for request in self.fake.calls("stream")]
        case = {
            "users": users,
            "turns": [turn.to_json() for turn in journal.turns],
            "imported": list(imported),
            "prompts": list(prompts),
        }
        path = self.folder / "case.json"
        path.write_text(json.dumps(case))
        return [*journal.problems, *self.ask("problems", str(path)), *self.fake.faults]

    def _put(self, name: str, arguments: list[str]) -> None:
        command = [sys.executable, *arguments]
        env = self.environment({"FAULT": f"@{self.order_file(name)}"} if name != SERVERS[1] else {})
        self.slots[name] = Slot(name, command, env, self._launch(name, command, env))

    def _launch(self, name: str, command: list[str], env: dict[str, str]) -> Child:
        return processes.start(name, command, log=self.folder / f"{name}.log", cwd=ROOT, env=env, patience=5)

    def _restart(self, slot: Slot) -> None:
        slot.child = self._launch(slot.name, slot.command, slot.env)
        self.restarts += 1

    def _supervise(self) -> None:
        while not self._ended.wait(TICK):
            with self._lock:
                for slot in self.slots.values():
                    if slot.child.exit_code is not None:
                        self._restart(slot)


class Load:
    """Many users who talk at the same time until they are told to stop."""

    def __init__(self, people: list[Person], act: Callable[[Person], None]) -> None:
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

    def _run(self, person: Person, act: Callable[[Person], None]) -> None:
        try:
            while not self._stopped.is_set():
                act(person)
        except BaseException as exc:  # noqa: BLE001  # raised again by the test
            self._errors.append(exc)


def _kill(child: Child) -> None:
    """Kill a child with all its descendants, and wait for their end. One that has ended already left none."""
    if child.exit_code is not None:
        return
    below = descendants_of(child.process.pid)
    child.kill_all()
    wait_for(lambda: not any(is_alive(pid) for pid in below), "the end of all that was below it")
