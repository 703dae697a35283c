"""Faults at the named points of the product, in its processes: `product.server(**faults(order))`.

The file `order` says `<point>:<n>:<what>:<struck>`. The fault strikes once, when the process reaches that point for the
n-th time (`any`: any point). `what` is `kill` (SIGKILL, as in a crash or by the kernel), `raise` (`InjectedFault`) or
`stall=<seconds>` (the thread stops, as in a pause of the machine). `struck` must not exist yet: the process that
creates it strikes, so that a fault strikes once however many processes read the order, and a test can see that it did.

The file is read whenever it changes, so that one process can be given several faults in turn. Counting starts again
with each; while there is no such file, nothing strikes.
"""

import logging
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

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
    "queue.enqueued",  # a task is on the queue; its transaction is open
    "fold.leased",
    "fold.loaded",  # the batch is chosen
    "fold.counted",  # the attempt is stored; the summarizer has not been asked yet
    "fold.answered",  # the answer has arrived, but is not stored anywhere
    "publish.stored",  # in the transaction: revision and brief are written
    "publish.committed",  # the lease is still held
    "rebuild.kept",  # the progress of a rebuild is stored
    "sweep.enqueued",
    "delete.stored",  # in the transaction: a chat and all of it is deleted
)
ORDER = "FAULT_ORDER"
"""The environment variable that names the file."""


def faults(order: Path) -> dict[str, str]:
    """The environment of a process that looks for its faults in that file."""
    return {"FAULT_POINTS": __name__, ORDER: str(order)}


class InjectedFault(Exception):
    """The exception that a fault point raises."""


_lock = threading.Lock()
_order, _passed = "", 0


def point(name: str) -> None:
    """Strike if the file orders it."""
    global _order, _passed
    assert name in POINTS
    order = ""
    with suppress(FileNotFoundError):
        order = Path(os.environ[ORDER]).read_text()
    with _lock:
        if order != _order:
            _order, _passed = order, 0
        where, n, what, struck = order.split(":", 3) if order else ("", "", "", "")
        if where not in (name, "any"):
            return
        _passed += 1
        if _passed != int(n) or not _is_first(struck, name):
            return
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    logger.warning("fault injected", extra={"point": name, "what": what})
    if what == "raise":
        raise InjectedFault(name)
    time.sleep(float(what.removeprefix("stall=")))


def _is_first(struck: str, name: str) -> bool:
    try:
        with os.fdopen(os.open(struck, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w") as file:
            file.write(name)
    except FileExistsError:
        return False
    return True
