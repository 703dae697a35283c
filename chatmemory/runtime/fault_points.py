"""Fault points: named places in our code where a test makes this process die, fail or stall. Free when off.

`FAULT=<point>:<n>:<what>:<file>` strikes once, when the process reaches that point for the n-th time (`any`: any
point). `what` is `kill` (SIGKILL, as in a crash or by the kernel), `raise` (`InjectedFault`) or `stall=<seconds>`
(the thread stops, as in a pause of the machine). `file` must not exist yet: the process that creates it strikes, so
that a fault strikes once however many processes read the variable, and a test can see that it did.

`FAULT=@<order>` reads the same from the file `order` whenever that changes, so that one process can be given several
faults in turn. Counting starts again with each; while there is no such file, nothing strikes.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

logger = logging.getLogger(__name__)

POINTS = (
    "begin.stored",  # in the transaction: the message and its ActiveReply are written, not committed
    "begin.committed",  # the message is stored; its reply is not being generated yet
    "generate.started",  # the task runs; the upstream has not been asked yet
    "generate.delta",  # a piece of the reply has arrived, but is not in the log yet
    "generate.ended",  # the upstream has finished; the end is not stored yet
    "checkpoint.written",  # partial texts are written, not committed
    "finish.stored",  # in the transaction: the final message is written, the ActiveReply deleted
    "finish.committed",
    "cancel.requested",  # the flag is set, but not read yet
    "queue.enqueued",  # a task is on the queue; on the ORM broker, its transaction is open
    "fold.leased",
    "fold.loaded",  # the bite is chosen
    "fold.counted",  # the attempt is stored; the summarizer has not been asked yet
    "fold.answered",  # the answer has arrived, but is not stored anywhere
    "publish.stored",  # in the transaction: revision and brief are written
    "publish.committed",  # the lease is still held
    "rebuild.kept",  # the progress of a rebuild is stored
    "sweep.enqueued",
)
WHAT = ("kill", "raise", "stall")


class InjectedFault(Exception):
    """The exception that a fault point raises."""


@dataclass(slots=True)
class Fault:
    """One fault, which strikes once."""

    point: str
    n: int
    what: str
    seconds: float
    file: str
    _passed: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Parse the variable. Raise `ImproperlyConfigured`."""
        point, n, what, file = [*text.split(":", 3), "", "", ""][:4]
        what, _, seconds = what.partition("=")
        if point not in (*POINTS, "any") or not n.isdigit() or what not in WHAT or not file:
            raise ImproperlyConfigured(
                f"FAULT is {text!r}, but must be <point>:<n>:<kill|raise|stall=seconds>:<file>."
            )
        return cls(point, int(n), what, float(seconds or 0), file)

    def pass_by(self, name: str) -> None:
        """Strike if the point has been reached for the n-th time."""
        if name not in POINTS:
            raise LookupError(f"{name} is no fault point")
        if self.point not in (name, "any"):
            return
        with self._lock:
            self._passed += 1
            if self._passed != self.n or not self._is_first(name):
                return
        if self.what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        logger.warning("fault injected", extra={"point": name, "what": self.what})
        if self.what == "raise":
            raise InjectedFault(name)
        time.sleep(self.seconds)

    def _is_first(self, name: str) -> bool:
        try:
            with os.fdopen(os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w") as file:
                file.write(name)
        except FileExistsError:
            return False
        return True


@dataclass(slots=True)
class Orders:
    """The fault that a file currently orders."""

    path: Path
    _order: str = ""
    _fault: Fault | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def pass_by(self, name: str) -> None:
        """Strike if the file orders it."""
        if (fault := self._current()) is not None:
            fault.pass_by(name)

    def _current(self) -> Fault | None:
        order = ""
        with suppress(FileNotFoundError):
            order = self.path.read_text()
        with self._lock:
            if order != self._order:
                self._order, self._fault = order, Fault.parse(order) if order else None
            return self._fault


def _off(name: str) -> None:
    """Do nothing: there are no faults."""


def switch(told: str) -> Callable[[str], None]:
    """Return the function to call at fault points, by the variable's value. Raise `ImproperlyConfigured`."""
    if told.startswith("@"):
        return Orders(Path(told[1:])).pass_by
    return Fault.parse(told).pass_by if told else _off


point = switch(os.environ.get("FAULT", ""))
"""Call it with the name of a fault point that the process has reached."""
