"""A TCP proxy in a thread that simulates a bad network in front of any server: slow, silent, or resetting.

While it is a `hole`, connections stay open and accept data, also new ones, but nothing is forwarded; `mend` forwards
it all. `reset` ends every connection by RST and accepts no new one until `mend`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from types import TracebackType

from tests.support.fakes.connection import reset_on_close

START_SECONDS = 10.0


class Proxy:
    """Forwards `port` of 127.0.0.1 to `target`."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.port = 0
        self._delay = 0.0
        self._refuses = False
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Proxy:
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="proxy", daemon=True)
        self._thread.start()
        assert started.wait(START_SECONDS), "the proxy did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)

    @property
    def connections(self) -> int:
        """Number of connected clients."""
        return len(self._writers) // 2

    def slow(self, seconds: float) -> None:
        """Delay every piece by `seconds` from now on, in each direction."""
        self._delay = seconds

    def hole(self) -> None:
        """Forward nothing."""
        self._in_loop(self._open.clear)

    def mend(self) -> None:
        """Forward normally again, including what was held back."""
        self._refuses, self._delay = False, 0.0
        self._in_loop(self._open.set)

    def reset(self) -> None:
        """Reset every connection at once, and new ones until `mend`."""
        self._refuses = True
        self._in_loop(self._abort)

    def _abort(self) -> None:
        for writer in list(self._writers):
            _abort(writer)

    def _in_loop(self, action: Callable[[], object]) -> None:
        done = threading.Event()

        def act() -> None:
            action()
            done.set()

        self._loop.call_soon_threadsafe(act)
        assert done.wait(START_SECONDS), "the proxy does not react"

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._open.set()
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        server.close()
        self._abort()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            _abort(writer)
            return
        await self._open.wait()
        there_reader, there_writer = await asyncio.open_connection(*self.target)
        self._writers |= {writer, there_writer}
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(self._pass(reader, there_writer), self._pass(there_reader, writer))
        for one in (writer, there_writer):
            self._writers.discard(one)
            one.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await asyncio.sleep(self._delay)
            await self._open.wait()
            writer.write(data)
            await writer.drain()
        writer.close()


def _abort(writer: asyncio.StreamWriter) -> None:
    assert isinstance(writer.transport, asyncio.Transport)
    reset_on_close(writer.transport)
    writer.transport.abort()
