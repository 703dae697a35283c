"""One TCP connection of the fake: HTTP/1.1 requests in, the steps of answers out, without knowing what they mean."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tests.support.fakes.behaviours import Cut, Gate, Head, Paced, Silence, Steps, Wait

REASONS = {
    200: "OK",
    307: "Temporary Redirect",
    400: "Bad Request",
    404: "Not Found",
    429: "Too Many Requests",
}


@dataclass(frozen=True)
class Request:
    """One request as it was received."""

    path: str
    headers: dict[str, str]
    raw: bytes
    body: dict[str, Any]
    at: float = field(default_factory=time.monotonic)

    @property
    def style(self) -> str:
        """The API style of its path."""
        return "chat" if self.path.endswith("/chat/completions") else "responses"

    @property
    def lane(self) -> Literal["stream", "complete"]:
        """Whether the request is for a stream."""
        return "stream" if self.body.get("stream") else "complete"

    @property
    def model(self) -> str:
        """The requested model; "" if none."""
        return str(self.body.get("model") or "")

    @property
    def output_limit(self) -> int | None:
        """The maximum number of tokens of the answer, reasoning included; None if there is no limit."""
        names = ("max_output_tokens", "max_completion_tokens", "max_tokens")
        return next((int(self.body[name]) for name in names if name in self.body), None)

    @property
    def instructions(self) -> str:
        """The text of the system role."""
        told = [content for role, content in self._messages() if role == "system"]
        return "\n".join([str(self.body.get("instructions") or ""), *told]).strip()

    @property
    def said(self) -> list[tuple[str, str]]:
        """The messages as (role, content), in order, without those of the system role."""
        return [(role, content) for role, content in self._messages() if role != "system"]

    @property
    def text(self) -> str:
        """All text sent to the model, joined, to search in it."""
        return "\n".join([self.instructions, *(content for _, content in self.said)])

    def _messages(self) -> list[tuple[str, str]]:
        given = self.body.get("messages") or self.body.get("input") or []
        if isinstance(given, str):
            return [("user", given)]
        return [_message(item) for item in given]


def _message(item: dict[str, Any]) -> tuple[str, str]:
    """Return role and text of a message, or of an item that is a call or its output."""
    kind = item.get("type")
    if kind == "function_call":
        return "assistant", f"{item['name']}({item['arguments']})"
    if kind == "custom_tool_call":
        return "assistant", f"{item['name']}({item['input']})"
    if kind in ("function_call_output", "custom_tool_call_output"):
        return "tool", content_text(item["output"])
    calls = [_called(call) for call in item.get("tool_calls") or ()]
    return str(item.get("role")), "\n".join([content_text(item.get("content")), *calls])


def _called(call: dict[str, Any]) -> str:
    if call["type"] == "custom":
        return f"{call['custom']['name']}({call['custom']['input']})"
    return f"{call['function']['name']}({call['function']['arguments']})"


def content_text(content: object) -> str:
    """Return the text of a message, whose content is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts)


class Server(Protocol):
    """What a connection needs of its server."""

    connections: set[Connection]

    def take(self, request: Request) -> Steps:
        """Return the steps of the answer."""

    async def pass_gate(self, lane: Literal["stream", "complete"]) -> None:
        """Wait until the lane is open."""


class Connection(asyncio.Protocol):
    """Parses requests, plays steps, notices when the client leaves."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._has_head = False

    @property
    def is_busy(self) -> bool:
        """True while an answer is in progress."""
        return self._task is not None and not self._task.done()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._writable.set()
        if self._task:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._take_request()

    def abort(self) -> None:
        """Drop the connection."""
        self._transport.abort()

    def _take_request(self) -> None:
        if self.is_busy or (parsed := parse_request(self._buffer)) is None:
            return
        request, self._buffer = parsed
        self._task = asyncio.get_running_loop().create_task(self._answer(request))
        self._task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.result()
        self._task = None
        if not self._transport.is_closing():
            self._take_request()

    async def _answer(self, request: Request) -> None:
        self._has_head = False
        if request.path not in ("/v1/responses", "/v1/chat/completions", "/v1/embeddings"):
            self._head(Head("application/json", 404))
            self._write(b'{"error":{"message":"no such path"}}')
        else:
            for step in self._server.take(request):
                await self._play(step, request)
                if self._transport.is_closing():
                    return
        self._transport.write(b"0\r\n\r\n")

    async def _play(self, step: Any, request: Request) -> None:
        match step:
            case bytes():
                self._write(step)
                await self._writable.wait()
            case Paced():
                await self._pace(step)
            case Head():
                self._head(step)
            case Wait():
                await asyncio.sleep(step.seconds)
            case Gate():
                await self._server.pass_gate(request.lane)
            case Silence():
                await asyncio.Event().wait()
            case Cut():
                self._cut(step)

    async def _pace(self, paced: Paced) -> None:
        """Send pieces at their rate; those that are late are sent together."""
        pieces, rate = paced.pieces, paced.rate
        if not rate:
            await self._write_all(pieces)
            return
        loop = asyncio.get_running_loop()
        started, sent = loop.time(), 0
        while sent < len(pieces):
            due = min(len(pieces), int((loop.time() - started) * rate) + 1)
            await self._write_all(pieces[sent:due])
            sent = due
            await asyncio.sleep(max(0.0, started + sent / rate - loop.time()))

    async def _write_all(self, pieces: Iterable[bytes]) -> None:
        self._transport.writelines([chunk(piece) for piece in pieces])
        await self._writable.wait()

    def _head(self, head: Head) -> None:
        lines = [
            f"HTTP/1.1 {head.status} {REASONS.get(head.status, 'Status')}",
            f"Content-Type: {head.content_type}",
            "Transfer-Encoding: chunked",
            *(f"{name}: {value}" for name, value in head.headers),
        ]
        self._has_head = True
        self._transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    def _write(self, data: bytes) -> None:
        if data:  # an empty chunk would end the body
            self._transport.write(chunk(data))

    def _cut(self, cut: Cut) -> None:
        if cut.how == "reset":
            reset_on_close(self._transport)
            self._transport.abort()
        else:
            if self._has_head:
                self._transport.write(b"ff\r\nd")
            self._transport.close()


def chunk(data: bytes) -> bytes:
    """Return one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def parse_request(buffer: bytes) -> tuple[Request, bytes] | None:
    """Return the first complete request in a buffer and what follows it; None if there is none yet."""
    head, found, rest = buffer.partition(b"\r\n\r\n")
    if not found:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", "0"))
    if len(rest) < length:
        return None
    raw = rest[:length]
    body: Any = {}
    with contextlib.suppress(ValueError):
        body = json.loads(raw or b"{}")
    path = first.split(" ")[1].partition("?")[0]
    return Request(path, headers, raw, body if isinstance(body, dict) else {}), rest[length:]


def reset_on_close(transport: asyncio.Transport) -> None:
    """Make closing send RST. Uses a duplicate of the descriptor, because not every event loop exposes its socket."""
    with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as duplicate:
        duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
