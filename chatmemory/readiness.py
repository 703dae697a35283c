"""Whether the services that the product needs work: the database, the queue, a worker. Checked apart from other work.

A call to an unreachable database can hang for ten seconds or more. So one probe at a time runs in its own thread, all
callers share it, and none of them waits longer than `MAX_WAIT_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from django.db import connection

from chatmemory.database import migration_state
from chatmemory.runtime.threads import OneAtATime
from memory import queue
from memory.queue import UNAVAILABLE
from memory.worker import alive, sweep

logger = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 2.0
"""Maximum wait of a caller, in seconds."""
SILENT = "does not answer"
MIGRATIONS = "migrations"

Problems = dict[str, str]
"""By part: why it is not ready, as a sentence for people."""


def _database() -> str | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return None


def _queue() -> str | None:
    queue.waiting_tasks()
    return None


def _worker() -> str | None:
    return alive.problem() or sweep.problem()


PARTS: dict[str, Callable[[], str | None]] = {
    "database": _database,
    MIGRATIONS: migration_state.problem,
    "worker": _worker,
    "queue": _queue,
}
"""By name, a function that returns a part's problem, and raises or hangs if the part does not answer."""


class Readiness:
    """Checks the parts one after the other in a thread, while other threads read the progress.

    The progress is a tuple that is replaced and never changed, so that readers see a consistent state.
    """

    def __init__(self, parts: Mapping[str, Callable[[], str | None]]) -> None:
        self._parts = parts
        self._unanswered: tuple[str, ...] = ()
        self._probe = OneAtATime(self._ask_all, "readiness")

    async def problems(self) -> Problems:
        """Return the parts that are not ready, within `MAX_WAIT_SECONDS`."""
        try:
            return await asyncio.wait_for(
                asyncio.shield(asyncio.wrap_future(self._probe.ask())), MAX_WAIT_SECONDS
            )
        except TimeoutError:
            logger.warning("not ready", extra={"error": "timeout"})
            return _silent(self._unanswered)

    def _ask_all(self) -> Problems:
        found: Problems = {}
        self._unanswered = tuple(self._parts)
        while self._unanswered and "database" not in found:
            part = self._unanswered[0]
            problem = _ask(self._parts[part])
            self._unanswered = self._unanswered[1:]
            if problem and part == MIGRATIONS and problem != SILENT:
                return {part: problem}  # it explains the problems of the other parts
            if problem:
                found["database" if part == MIGRATIONS else part] = problem
        # Without a database, the worker cannot be checked, and mostly not the queue.
        return found | _silent(self._unanswered)


def _silent(unanswered: Sequence[str]) -> Problems:
    """The parts that have not answered. Missing answers about migrations are those of the database."""
    return {part: SILENT for part in unanswered if part != MIGRATIONS}


def _ask(part: Callable[[], str | None]) -> str | None:
    try:
        return part()
    except UNAVAILABLE as exc:
        logger.warning("not ready", extra={"error": type(exc).__name__})
        return SILENT


@cache
def _readiness() -> Readiness:
    return Readiness(PARTS)


async def problems() -> Problems:
    """Return the parts of this server that are not ready, within `MAX_WAIT_SECONDS`."""
    return await _readiness().problems()
