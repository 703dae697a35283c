"""Whether what the product stands on answers: the database, the queue, a worker. Asked apart from all other work.

A database that is away can leave a call hanging for ten seconds or more. So one probe at a time runs in a thread of
its own, all who ask share it, and none of them waits longer than `PATIENCE`.
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
from memory.queue import AWAY
from memory.worker import watches

logger = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds."""
SILENT = "does not answer"
MIGRATIONS = "migrations"

Problems = dict[str, str]
"""By part: why it is not ready, in a sentence for a person."""


def _database() -> str | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return None


def _queue() -> str | None:
    queue.waiting_tasks()
    return None


PARTS: dict[str, Callable[[], str | None]] = {
    "database": _database,
    MIGRATIONS: migration_state.problem,
    "worker": watches.problem,
    "queue": _queue,
}
"""By name, what gives its problem, and raises or hangs where it does not answer."""


class Readiness:
    """The parts, asked one after the other in a thread, while others look at how far that has come.

    What they look at is a tuple that is replaced and never changed, so that no look sees it half done.
    """

    def __init__(self, parts: Mapping[str, Callable[[], str | None]]) -> None:
        self._parts = parts
        self._unanswered: tuple[str, ...] = ()
        self._probe = OneAtATime(self._ask_all, "readiness")

    async def problems(self) -> Problems:
        """The parts that are not ready. Takes `PATIENCE` at most."""
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._probe.ask())), PATIENCE)
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
                return {part: problem}  # it explains what the others would say
            if problem:
                found["database" if part == MIGRATIONS else part] = problem
        # Without a database there is no telling of a worker, and mostly no queue.
        return found | _silent(self._unanswered)


def _silent(unanswered: Sequence[str]) -> Problems:
    """The parts that have not answered. Migrations are never silent themselves, but the database that has them."""
    return {part: SILENT for part in unanswered if part != MIGRATIONS}


def _ask(part: Callable[[], str | None]) -> str | None:
    try:
        return part()
    except AWAY as exc:
        logger.warning("not ready", extra={"error": type(exc).__name__})
        return SILENT


@cache
def _readiness() -> Readiness:
    return Readiness(PARTS)


async def problems() -> Problems:
    """The parts of this server that are not ready. Takes `PATIENCE` at most."""
    return await _readiness().problems()
