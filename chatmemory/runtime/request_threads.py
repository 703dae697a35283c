"""Reuses threads for the synchronous code of requests; a request borrows one at its first need.

Django creates a new thread per request, and even a stream needs one when it is closed; starting and ending a thread
takes as long as two statements. Borrowed threads are kept for later requests. A request has the same thread to its
end, as Django requires.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

KEPT = 16
"""Maximum number of idle threads."""


class RequestThread(Executor):
    """The thread of one request. Use it on the event loop only, and `give_back` it when the request has ended."""

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
