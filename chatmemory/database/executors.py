"""Executors that run the database work of async code.

SQLite allows one writer at a time, so there is one writer thread and a few reader threads, each of which keeps its
connection. PostgreSQL has a pool: each job borrows a connection and returns it at its end, so that no connection is
held while a stream is open (P16). Jobs run in the caller's context, so that logs keep the request id.
"""

import asyncio
import contextvars
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import ParamSpec, TypeVar

from django.conf import settings
from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, connection, transaction

from chatmemory.errors import Unavailable

logger = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

UNSTORABLE = (DataError, IntegrityError, ValueError, ArithmeticError)
"""Exceptions for a value that does not fit its column: too long, too large, not a number, not Unicode. PostgreSQL
raises them itself; on SQLite, Django or the driver does. Retrying does not help.
"""
READERS = 4
POOLED = 4
"""Maximum threads on PostgreSQL. More of them only wait for each other and for the interpreter. Measured at 20
concurrent streams: 8 threads give 69 streams a second and 248 ms to the first token at the 95th percentile; 4 threads
79 and 170 ms. Fewer would be faster still next to the database, but not across a network.
"""
MAX_SLOW_THREADS = 4
"""Maximum threads for work that takes seconds. On PostgreSQL, fewer if writers would lack connections otherwise."""
SWITCH_SECONDS = 0.001
"""How long a thread may compute while another waits for the interpreter, in seconds. Every statement releases the
interpreter, and then waits that long for a busy event loop: with Python's default of 5 ms, 20 concurrent streams had
two thirds of the throughput (measured).
"""


@cache
def _writer() -> ThreadPoolExecutor:
    sys.setswitchinterval(SWITCH_SECONDS)
    size = 1 if settings.IS_SQLITE else min(POOLED, max(1, settings.DATABASE_POOL_SIZE - 2))
    return ThreadPoolExecutor(size, thread_name_prefix="db-write")


@cache
def _readers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(READERS, thread_name_prefix="db-read") if settings.IS_SQLITE else _writer()


@cache
def _slow() -> ThreadPoolExecutor:
    left = MAX_SLOW_THREADS if settings.IS_SQLITE else max(1, settings.DATABASE_POOL_SIZE - POOLED - 2)
    return ThreadPoolExecutor(min(MAX_SLOW_THREADS, left), thread_name_prefix="db-slow")


def _job(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function and leave the thread usable: a pooled connection is returned, a broken one is closed."""
    try:
        return function(*args, **kwargs)
    finally:
        if connection.vendor != "sqlite" or connection.errors_occurred:
            connection.close()


def give_back() -> None:
    """Return this thread's connection to the pool, so that none is held while the network is waited for.

    Does nothing in a transaction, or on SQLite, where connections are many and their opening costs.
    """
    if connection.vendor != "sqlite" and not connection.in_atomic_block:
        connection.close()


async def _run(executor: ThreadPoolExecutor, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    context = contextvars.copy_context()
    call = partial(context.run, partial(_job, function, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(executor, call)


@contextmanager
def snapshot() -> Iterator[None]:
    """Make all reads in the block see one moment; on SQLite without the lock that our transactions take."""
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


LOG_PATIENCE_MS = 200
"""How long truncating SQLite's write-ahead log waits for others, in milliseconds. Writers wait as long for it."""


def truncate_wal() -> None:
    """On SQLite, move the content of the write-ahead log into the database, and truncate the log.

    Deleted content is overwritten in the database (`secure_delete`), but would stay in the log until it is written
    again. If another connection is reading or writing, wait for `LOG_PATIENCE_MS`, then leave it to the next call.
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


async def write(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `function` on an executor that may write. It runs to its end even if the caller is cancelled."""
    return await _run(_writer(), function, *args, **kwargs)


async def try_write(failure: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Write as `write` does; but while the database is away, log `failure` and return None."""
    try:
        return await write(function, *args, **kwargs)
    except (DatabaseError, InterfaceError) as exc:
        logger.warning(failure, extra={"error": type(exc).__name__})
        return None


async def read(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `function`, which only reads, without waiting for writers."""
    return await _run(_readers(), function, *args, **kwargs)


async def slow(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `function`, which takes seconds, apart from writers and readers. It runs to its end, as in `write`."""
    return await _run(_slow(), function, *args, **kwargs)


MAX_APART = 16
_room = threading.Semaphore(MAX_APART)


async def apart(work: Callable[[], T]) -> T:
    """Return the result of `work`, which does not use the database, run in a thread of its own.

    Raise `Unavailable` if too many are running.
    """
    if not _room.acquire(blocking=False):
        raise Unavailable("The server has too much to do right now. Try again in a moment.", retry_after=5)

    def finish() -> T:
        try:
            return work()
        finally:
            _room.release()

    return await in_own_thread(finish)


async def in_own_thread(work: Callable[[], T]) -> T:
    """Return the result of `work`, run in a thread that shutdown does not wait for.

    Neither in asyncio's default executor, in which names are resolved for every stream, nor in the database's: a few
    slow calls would fill them. If the caller is cancelled, the work still runs to its end.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def finish() -> None:
        try:
            done.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            done.set_exception(error)

    threading.Thread(target=finish, name="apart", daemon=True).start()
    return await asyncio.wrap_future(done)
