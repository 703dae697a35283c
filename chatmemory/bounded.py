"""Work that may hang, for callers who must not: in a thread of its own, one call at a time, shared by all who ask.

A database that is a network away can leave a call without an answer for minutes. Whoever asks waits as long as they
like; the call goes on to its end, and no second one is begun before. What the work is, is not known here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from django.db import connections

T = TypeVar("T")


class OneAtATime(Generic[T]):
    """Runs `work`, which may use the database, in a daemon thread, never twice at once."""

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self._work = work
        self._name = name
        self._lock = threading.Lock()
        self._running: Future[T] | None = None

    def ask(self) -> Future[T]:
        """The call that is under way, or a new one."""
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
