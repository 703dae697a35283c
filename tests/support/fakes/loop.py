"""A server of asyncio in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

PATIENCE = 10.0
"""Seconds in which the thread starts, reacts and ends."""


class LoopThread(ABC):
    """Serves in its own thread, from entering to leaving. Then everything of the loop is cancelled."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    @abstractmethod
    async def start(self) -> None:
        """Begin to serve."""

    @abstractmethod
    def end(self) -> None:
        """Close what `start` opened."""

    def __enter__(self) -> Self:
        started = threading.Event()
        self._thread = threading.Thread(target=self.run, args=(started.set,), name=type(self).__name__, daemon=True)
        self._thread.start()
        assert started.wait(PATIENCE), f"{self._thread.name} did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)

    def run(self, started: Callable[[], object]) -> None:
        """Run in this thread until the loop is stopped."""
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self.start())
        started()
        try:
            self._loop.run_forever()
        finally:
            self.end()
            self._loop.run_until_complete(self._cancelled())
            self._loop.close()

    async def _cancelled(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)

    def in_loop(self, action: Callable[[], object]) -> None:
        """Do something in the loop, and wait until it is done."""
        done = threading.Event()

        def act() -> None:
            action()
            done.set()

        self._loop.call_soon_threadsafe(act)
        assert done.wait(PATIENCE), f"{self._thread.name} does not react"
