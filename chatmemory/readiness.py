"""Whether what the product stands on answers: the database, the queue, a worker. Asked apart from all other work.

A database that is away can leave a call hanging for ten seconds or more. So one probe at a time runs in a thread of
its own, all who ask share it, and none of them waits longer than `PATIENCE`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
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


async def problems() -> Problems:
    """The parts that are not ready. Takes `PATIENCE` at most."""
    probe = _probe()
    try:
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(probe.ask())), PATIENCE)
    except TimeoutError:
        logger.warning("not ready", extra={"error": "timeout"})
        return _silent()


_unanswered: list[str] = []
"""Parts that the probe under way has not come through yet."""


@cache
def _probe() -> OneAtATime[Problems]:
    return OneAtATime(_ask_all, "readiness")


def _ask_all() -> Problems:
    found: Problems = {}
    _unanswered[:] = PARTS
    while _unanswered and "database" not in found:
        part = _unanswered[0]
        problem = _ask(PARTS[part])
        del _unanswered[0]
        if problem and part == MIGRATIONS and problem != SILENT:
            return {part: problem}  # it explains what the others would say
        if problem:
            found["database" if part == MIGRATIONS else part] = problem
    # Without a database there is no telling of a worker, and mostly no queue.
    return found | _silent()


def _silent() -> Problems:
    """The parts that have not answered. Migrations are never silent themselves, but the database that has them."""
    return {part: SILENT for part in _unanswered if part != MIGRATIONS}


def _ask(part: Callable[[], str | None]) -> str | None:
    try:
        return part()
    except AWAY as exc:
        logger.warning("not ready", extra={"error": type(exc).__name__})
        return SILENT
