"""Runs a coroutine to its end from synchronous code, without taking longer than the coroutine itself.

`asyncio.run` joins the default executor before it returns, so a DNS lookup that hangs there would outlive any
deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def forbid_running_loop() -> None:
    """Raise `RuntimeError` if an event loop runs in this thread: waiting here would block everything that it serves."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("this call blocks: from a coroutine, use a thread")


def run_in_private_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new event loop of this thread and raise its errors. An interruption cancels it first."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    finally:
        if not task.done():
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
