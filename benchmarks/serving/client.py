"""A client with minimal overhead: HTTP/1.1 over one kept connection, which times the first token and the end.

It talks to the server and to the upstream directly in the same way, so that the difference is the server's.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

END_OF_CHUNKS = b"0\r\n\r\n"
FIRST_TOKENS = (b"event: content.delta", b"response.output_text.delta", b'"delta":{"content"')
"""What precedes the first piece of text: the server's event name, and those of the upstream."""


class RequestFailed(Exception):
    """The answer was not one that a benchmark can use. The message is the beginning (or the end) of that answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered request; times in seconds from sending it."""

    first_token: float
    total: float
    body: bytes


class Connection:
    """One connection to 127.0.0.1, for consecutive requests."""

    def __init__(self, port: int, token: str = "") -> None:
        self._port = port
        self._token = token
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**22)
        return self

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def post(self, path: str, body: dict[str, Any]) -> Answer:
        """Send and read to the end of the stream. Raise `RequestFailed` unless the answer is a 200 with some text."""
        started = time.perf_counter()
        self._writer.write(self._request(path, json.dumps(body).encode()))
        received = bytearray()
        first = 0.0
        while not received.endswith(END_OF_CHUNKS):
            part = await self._reader.read(2**18)
            received += part
            if not first and any(mark in received for mark in FIRST_TOKENS):
                first = time.perf_counter() - started
            if not part or not received.startswith(b"HTTP/1.1 200"):
                raise RequestFailed(bytes(received[:500]).decode("utf-8", "replace"))
        if not first:
            raise RequestFailed(bytes(received[-500:]).decode("utf-8", "replace"))
        return Answer(first, time.perf_counter() - started, bytes(received))

    def _request(self, path: str, body: bytes) -> bytes:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nAccept: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def chat_id_of(answer: Answer) -> str:
    """Return the id of the chat that an answer of the server belongs to; "" if it names none."""
    _, _, after = answer.body.partition(b'"chat_id":')
    return after.split(b'"', 2)[1].decode() if after else ""
