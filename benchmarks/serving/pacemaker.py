"""An upstream with minimal overhead: every stream gets its deltas on time, from one timer for all of them.

`python -m benchmarks.serving.pacemaker --port N` speaks as much of the Responses API as a stream needs. A delta's text
is the moment at which it was written, in microseconds of the machine's monotonic clock, and a semicolon. Every stream
gets one each `1 / RATE` seconds, not all streams at once. Streams continue until `POST /end`, or for `--deltas`;
`--wait` is for how many times `1 / RATE` seconds each says nothing at first.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import cast

import uvloop

from tests.support.fakes.connection import chunk
from tests.support.fakes.speech import End, Speech

RATE = 20
"""Deltas per second and stream."""
GROUPS = 10
"""The number of groups of streams; the groups are written to one after the other."""
TICK = 1 / RATE / GROUPS
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


class Pacemaker:
    """All open streams, and their one timer."""

    def __init__(self, wait: int = 0, deltas: int = 0) -> None:
        self.wait, self.deltas = wait, deltas
        self.groups: list[set[Stream]] = [set() for _ in range(GROUPS)]
        self.is_ending = False

    def join(self, stream: Stream) -> None:
        """Add a stream to the smallest group."""
        self.is_ending = False
        min(self.groups, key=len).add(stream)

    def leave(self, stream: Stream) -> None:
        for group in self.groups:
            group.discard(stream)

    async def run(self) -> None:
        """Write to the streams forever."""
        due = time.monotonic()
        while True:
            for group in self.groups:
                self._write(group)
                due += TICK
                await asyncio.sleep(due - time.monotonic())

    def _write(self, group: set[Stream]) -> None:
        for stream in list(group):
            if self.is_ending or stream.told == self.deltas > 0:
                group.discard(stream)
                stream.end()
            else:
                stream.tell()


class Stream(asyncio.Protocol):
    """One connection, for consecutive requests."""

    def __init__(self, pacemaker: Pacemaker) -> None:
        self._pacemaker = pacemaker
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass

    def connection_lost(self, exc: Exception | None) -> None:
        self._pacemaker.leave(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if found and len(body) >= int(length or 0):
            self._buffer = b""
            self._end_all() if head.startswith(b"POST /end") else self._begin()

    def tell(self) -> None:
        """Write the current time as a delta, unless it is still to wait."""
        self.told += 1
        if self.told > 0:
            self._transport.write(chunk(self._speech.delta(f"{time.monotonic_ns() // 1000};")))

    def end(self) -> None:
        """Write a regular end of the stream."""
        closing = b"".join(self._speech.closing("", End()))
        self._transport.write(chunk(closing) + LAST)

    def _begin(self) -> None:
        self._speech = Speech("responses", "gpt-fake", "resp_1")
        self.told = -self._pacemaker.wait
        self._transport.write(HEAD + chunk(b"".join(self._speech.opening())))
        self._pacemaker.join(self)

    def _end_all(self) -> None:
        self._pacemaker.is_ending = True
        self._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")


async def serve(port: int, wait: int, deltas: int) -> None:
    """Serve until the process ends."""
    pacemaker = Pacemaker(wait, deltas)
    server = await asyncio.get_running_loop().create_server(lambda: Stream(pacemaker), "127.0.0.1", port, backlog=1024)
    async with server:
        await pacemaker.run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--wait", type=int, default=0)
    parser.add_argument("--deltas", type=int, default=0)
    arguments = parser.parse_args()
    uvloop.run(serve(arguments.port, arguments.wait, arguments.deltas))


if __name__ == "__main__":
    main()
