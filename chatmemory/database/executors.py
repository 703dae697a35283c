"""Database work of async code, on executors of our own.

SQLite takes one writer at a time, so there is one writer thread and a few for reading; these threads keep their
connection. PostgreSQL has a pool: each job borrows a connection and gives it back at its end, so that nothing is held
while a stream is open (P16). The context of the caller goes along, so that logs keep the request id.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import DataError, IntegrityError, connection, transaction

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

UNSTORABLE = (DataError, IntegrityError, ValueError, ArithmeticError)
"""What storing a value raises that does not fit its column: too long, too large, no number, no Unicode. PostgreSQL says
so itself; on SQLite it is Django or the driver that does. Trying again changes nothing."""
READERS = 4
POOLED = 4
"""Threads on PostgreSQL, at most: more of them only wait for each other and for the interpreter. Measured at 20 streams
at once: 8 threads 69 streams a second and 248 ms to the first token at the 95th percentile; 4 threads 79 and 170 ms.
Fewer would be faster still next to the database, but not a network away from it."""
SLOW = 4
"""Threads for work that takes seconds, at most; on PostgreSQL, no more than leave the writers their connections."""
LOG_PATIENCE_MS = 200
"""That emptying SQLite's log waits for others. Writers wait as long for it."""
SWITCH_SECONDS = 0.001
"""How long a thread may compute while another waits for the interpreter. Every statement lets go of it, and then waits
that long for a busy event loop: with Python's own 5 ms, 20 streams at once had two thirds of the speed (measured).
"""


@cache
def _writer() -> ThreadPoolExecutor:
    sys.setswitchinterval(SWITCH_SECONDS)
    size = 1 if settings.IS_SQLITE else min(POOLED, max(1, settings.DATABASE_POOL_SIZE - 2))
    return ThreadPoolExecutor(max_workers=size, thread_name_prefix="db-write")


@cache
def _readers() -> ThreadPoolExecutor:
    return (
        ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="db-read")
        if settings.IS_SQLITE
        else _writer()
    )


@cache
def _slow() -> ThreadPoolExecutor:
    size = SLOW if settings.IS_SQLITE else min(SLOW, max(1, settings.DATABASE_POOL_SIZE - POOLED - 2))
    return ThreadPoolExecutor(max_workers=size, thread_name_prefix="db-slow")


def _job(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run and leave a usable thread behind: a pooled connection goes back, a broken one is closed."""
    try:
        return function(*args, **kwargs)
    finally:
        if connection.vendor != "sqlite" or connection.errors_occurred:
            connection.close()


async def _run(
    executor: ThreadPoolExecutor, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    context = contextvars.copy_context()
    call = partial(context.run, partial(_job, function, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(executor, call)


@contextmanager
def snapshot() -> Iterator[None]:
    """Read as of one moment what is read within; on SQLite without the lock that our transactions take."""
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
    else:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield


def empty_log() -> None:
    """On SQLite: move what the write-ahead log holds into the database, and cut the log to nothing.

    What was deleted is overwritten there (`secure_delete`), but would stand in the log until that is written anew. If
    somebody reads or writes just now, it waits a moment and leaves it to the next time.
    """
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        (patience,) = cursor.fetchone()
        cursor.execute(f"PRAGMA busy_timeout = {LOG_PATIENCE_MS}")
        try:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.fetchall()
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {patience}")


def after_commit(run: Callable[[], object]) -> None:
    """Run it once the transaction has committed; outside of one, now. If it fails, that is logged and goes no further.

    Not by Django's `robust=True`: for its own log line that reads the function's name, and a `partial` has none, so its
    failure came out all the same, after the commit (Django 5.2).
    """

    def guarded() -> None:
        try:
            run()
        except Exception:
            logger.exception("work after a commit failed")

    transaction.on_commit(guarded)


async def write(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `function` where it may write. A caller that is cancelled does not undo it: it runs to its end."""
    return await _run(_writer(), function, *args, **kwargs)


async def read(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `function`, which only reads, without waiting for writers."""
    return await _run(_readers(), function, *args, **kwargs)


async def slow(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `function`, which takes seconds, where neither writers nor readers wait for it. To its end, as `write`."""
    return await _run(_slow(), function, *args, **kwargs)
