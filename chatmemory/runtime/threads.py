"""Run blocking work off the event loop: slow calls in daemon threads, calls that may hang one at a time.

`run`: at most `MAX_THREADS` pieces of slow work at once, in threads that shutdown does not wait for. It uses neither
asyncio's default executor, in which names are resolved for every stream, nor the database's: a few slow calls would
fill them. The work must not use the database.

`OneAtATime`: a call to a database across a network can hang for minutes. Callers wait as long as they like; the call
runs to its end, all callers share it, and no other starts before.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from django.db import connections

from chatmemory.errors import Unavailable

T = TypeVar("T")


class OneAtATime(Generic[T]):
    """Runs `work`, which may use the database, in a daemon thread, never twice at once."""

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self._work = work
        self._name = name
        self._lock = threading.Lock()
        self._running: Future[T] | None = None

    def ask(self) -> Future[T]:
        """Return the running call, or start one."""
        with self._lock:
            if self._running is not None and not self._running.done():
                return self._running
            self._running = Future()
            self._running.set_running_or_notify_cancel()
            threading.Thread(target=self._run, args=(self._running,), name=self._name, daemon=True).start()
            return self._running

    def _run(self, future: Future[T]) -> None:
        try:
            future.set_result(self._work_and_close())
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            future.set_exception(error)

    def _work_and_close(self) -> T:
        try:
            return self._work()
        finally:
            connections.close_all()  # its thread ends


MAX_THREADS = 16
_room = threading.Semaphore(MAX_THREADS)


async def run(work: Callable[[], T]) -> T:
    """Return the result of `work`, run in a thread. Raise its errors, or `Unavailable` if too many are running.

    If the caller is cancelled, the work still runs to its end.
    """
    if not _room.acquire(blocking=False):
        raise Unavailable("The server has too much to do right now. Try again in a moment.", retry_after=5)
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def finish() -> None:
        try:
            done.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            done.set_exception(error)
        finally:
            _room.release()

    threading.Thread(target=finish, name="apart", daemon=True).start()
    return await asyncio.wrap_future(done)
