"""Blocking work of seconds for async code: a thread of its own for each, so many at once, none waited for at the end.

Neither asyncio's default executor, in which names are looked up for every stream, nor the database's: a few slow calls
would fill them. Daemon threads, because a process that is going away must not wait for whoever does not answer. What
the work is, is not known here; it must not touch the database.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from chatmemory.errors import Unavailable

T = TypeVar("T")

AT_ONCE = 16
_room = threading.Semaphore(AT_ONCE)


async def run(work: Callable[[], T]) -> T:
    """The result of `work`, run in a thread. Raises what it raises, and `Unavailable` where too many are at work.

    A caller that is cancelled leaves it running to its end.
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
