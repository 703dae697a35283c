"""The thread on which a request runs what is synchronous, borrowed when it is first needed.

Django gives each request a fresh one, and even a stream needs one to be closed: to start and end that thread takes as
long as two statements. Those that were borrowed are kept; a request has the same thread to its end, as Django wants it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

KEPT = 16
"""Threads that wait for a request, at most."""


class RequestThread(Executor):
    """One request's thread. Used on the event loop alone; `give_back` it when the request has ended."""

    def __init__(self) -> None:
        self._borrowed: ThreadPoolExecutor | None = None

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._borrowed is None:
            self._borrowed = _idle.pop() if _idle else ThreadPoolExecutor(1, thread_name_prefix="request")
        return self._borrowed.submit(fn, *args, **kwargs)

    def give_back(self) -> None:
        if self._borrowed is None:
            return
        if len(_idle) < KEPT:
            _idle.append(self._borrowed)
        else:
            self._borrowed.shutdown(wait=False)


_idle: list[ThreadPoolExecutor] = []
