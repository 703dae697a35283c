"""A client that reads many slow streams at once with minimal overhead and notes how late each delta arrives.

The texts are those of `benchmarks.serving.pacemaker`. Deltas may arrive joined; each time stamp counts.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from array import array
from dataclasses import dataclass, field
from typing import cast

from benchmarks.serving.client import RequestFailed

STAMP = re.compile(rb"(\d{6,});")
ENDED = re.compile(rb"event: message\.(?!created)(\w+)")
END_OF_CHUNKS = b"0\r\n\r\n"


@dataclass(slots=True)
class Heard:
    """When each delta was written, and how much later it was read, in microseconds, in the order of reading."""

    written: array[int] = field(default_factory=lambda: array("q"))
    late: array[int] = field(default_factory=lambda: array("q"))

    def between(self, start: int, end: int) -> list[int]:
        """Return the delays of deltas written between `start` (inclusive) and `end` (exclusive)."""
        both = zip(self.written, self.late, strict=True)
        return [late for written, late in both if start <= written < end]


class Listener(asyncio.Protocol):
    """One stream: `begun` is set at the first delta, `ended` when all is read. Both fail if the stream is malformed."""

    def __init__(self, request: bytes, heard: Heard) -> None:
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[int] = loop.create_future()
        """The number of deltas."""
        self._request = request
        self._heard = heard
        self._tail = b""
        self._newest = 0
        self._count = 0
        self._final = b""
        """The final event, as far as it was read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns() // 1000
        if self._final:
            self._final += data
        else:
            data = self._tail + data
            self._listen(data, now)
        if self._final.endswith(END_OF_CHUNKS):
            self._end()

    def close(self) -> None:
        """Stop listening, wherever the stream is."""
        self.ended.cancel()
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        for future in (self.begun, self.ended):
            if not future.done():
                future.set_exception(exc or RequestFailed(self._tail[:500].decode("utf-8", "replace")))

    def _listen(self, data: bytes, now: int) -> None:
        """Record every time stamp of a delta."""
        ended = ENDED.search(data)
        after = 0
        for stamp in STAMP.finditer(data, 0, ended.start() if ended else len(data)):
            written, after = int(stamp[1]), stamp.end()
            if written <= self._newest:
                raise RequestFailed("a delta came twice, or in the wrong order")
            self._newest = written
            self._count += 1
            self._heard.written.append(written)
            self._heard.late.append(now - written)
        if self._count and not self.begun.done():
            self.begun.set_result(None)
        self._tail = data[after:]
        self._final = data[ended.start() :] if ended else b""

    def _end(self) -> None:
        """Check the final event, which repeats every delta, and close."""
        ended = ENDED.match(self._final)
        if not ended or ended[1] != b"completed" or len(STAMP.findall(self._final)) != self._count:
            raise RequestFailed(self._final[:500].decode("utf-8", "replace"))
        self.ended.set_result(self._count)
        self._transport.close()


async def listen(port: int, token: str, message: str, heard: Heard) -> Listener:
    """Begin a stream in a new chat; return at its first delta. Raise `RequestFailed` if it does not begin."""
    body = json.dumps({"message": message}).encode()
    head = (
        f"POST /v1/message/first HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nAccept: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    _, made = await loop.create_connection(lambda: Listener(head.encode() + body, heard), "127.0.0.1", port)
    await made.begun
    return made
