"""A worker command at work, for tests that kill its processes and check what follows."""

from __future__ import annotations

import os
import signal
from uuid import UUID

from chatmemory.runtime.processes import Child
from memory.models import Watch, WorkerProcess
from tests.processes.talking import question, settled
from tests.support.factories import add_turns, make_chat
from tests.support.process_tree import Family, descendants_of, family_of, is_alive, left_of
from tests.support.processes import Product, wait_for

QUICK = {"WORKER_CANARY_SECONDS": "0.5", "WORKER_PATIENCE_SECONDS": "3"}
"""A tenth of the defaults."""
DEATHS = {"the cluster ended by itself", "the cluster has frozen and is replaced"}


class Watched:
    """A watchdog and its cluster, started and known to work."""

    def __init__(self, product: Product, **env: str) -> None:
        others = set(Watch.objects.values_list("pk", flat=True))
        self.child: Child = product.worker(**QUICK | env)
        new = Watch.objects.exclude(pk__in=others)
        self.name: str = wait_for(lambda: self._runs() and new.first(), "a watch", timeout=60).pk
        self.family = self.whole()

    def whole(self) -> Family:
        """Return the current family, complete and at work: a frozen one looks complete until it is replaced."""
        while True:
            family = wait_for(self._family, "a complete cluster", timeout=60)
            assert isinstance(family, Family)
            answered = self.acknowledged()
            wait_for(lambda: self.acknowledged() > answered, "an answer of the cluster", timeout=60)  # noqa: B023
            if self._family() == family:
                return family

    def strangers(self) -> set[int]:
        """Return the processes that this watchdog's clusters left behind."""
        return set(left_of(self.name)) - set(descendants_of(self.child.process.pid))

    def acknowledged(self) -> int:
        """Return the number of the last canary that was acknowledged."""
        return Watch.objects.get(pk=self.name).acknowledged

    def kill(self, pid: int) -> None:
        """Send SIGKILL to that process only."""
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not is_alive(pid), "the end of a process")

    def _family(self) -> Family | None:
        assert self._runs()
        rows = WorkerProcess.objects.filter(watch=self.name).order_by("pid")
        alive = [one.pid for one in rows if is_alive(one.pid)]
        return family_of(self.child.process.pid, alive) if len(alive) == 2 else None

    def _runs(self) -> bool:
        log = self.child.log
        assert self.child.exit_code is None, f"the watchdog ended:\n{log.read_text()[-2000:]}"
        return True


def expect_deaths(product: Product) -> None:
    """Expect the errors that the watchdog and django-q2 log about killed processes. The latter's name processes."""
    told = {line["event"] for line in product.logged() if line["event"].startswith("reincarnated ")}
    product.expected |= DEATHS | told


def due_chat() -> UUID:
    """Make a chat with 40 turns, whose fold is in the queue."""
    chat = make_chat()
    add_turns(chat, [(question(number), "Noted.") for number in range(40)])
    return chat.pk


def is_folded(chat_id: UUID) -> bool:
    """Whether a chat has been folded and is at rest."""
    brief = settled(chat_id)
    return brief is not None and brief.version > 0
