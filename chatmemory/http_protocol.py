"""uvicorn's HTTP protocol with limits: `uvicorn --http chatmemory.http_protocol:HttpProtocol …`.

If a header or a URL arrives in pieces, httptools joins it again with each piece, and neither httptools nor uvicorn
has a limit: one connection could fill the memory of the process and keep its loop busy. The application is called
only once the headers are complete, so the limit is here. So is the limit on the time in which a client has to read,
because what it does not read stays in memory. And so is the limit of the loop's time for one connection: 256 KiB of a
body in chunks of one byte take a tenth of a second to parse, in which no other client is served, and the next 256 KiB
have arrived by then.
"""

import asyncio
import time
from collections.abc import Callable
from typing import cast

from django.conf import settings
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from chatmemory import asgi  # sets Django up: uvicorn imports this module before the application

SLICE_BYTES = 4096
"""Bytes parsed at once. A read has up to 256 KiB, which may be 14,000 tiny requests, or 44,000 chunks of a body."""
PARSE_SECONDS = 0.001
"""How long one connection may be parsed before others are served. No ordinary client sends input that takes as long."""
UNREAD_SECONDS = 30.0
"""How long a client may read nothing while an answer waits for it. Streams of replies can be resumed."""
BODY_INTERVALS = 30
"""For how many times `REQUEST_RECEIVE_SECONDS` (ten minutes in all) a body may arrive, however steadily."""
REST_SECONDS = 0.004
"""How long the connection then waits, so that parsing it takes at most a fifth of the loop's time."""


class Flow(FlowControl):
    """uvicorn's flow control, which also pauses reading while received data waits to be parsed."""

    is_paused = False
    """Whether uvicorn has paused reading."""
    is_held = False

    def __init__(self, transport: asyncio.Transport, on_resumed: Callable[[], None]) -> None:
        super().__init__(transport)
        self._on_resumed = on_resumed

    def pause_reading(self) -> None:
        self.is_paused = True
        super().pause_reading()

    def resume_reading(self) -> None:
        self.is_paused = False
        if self.is_held:
            self._on_resumed()
        else:
            super().resume_reading()

    def hold(self) -> None:
        """Pause reading until `release`, even if uvicorn resumes. `on_resumed` is called when uvicorn does."""
        self.is_held = True
        super().pause_reading()

    def release(self) -> None:
        self.is_held = False
        if not self.is_paused:
            super().resume_reading()


class HttpProtocol(HttpToolsProtocol):
    """Limits headers, URLs, trailers and chunk extensions in bytes, and the time in which a request has to arrive.

    Counts bytes that neither complete headers nor belong to a body. A request that arrives in one piece costs one
    timer per connection and a few comparisons.
    """

    flow: Flow
    url = b""
    _unused = 0
    """Bytes since the headers were complete, or since the last piece of the body."""
    _expects_head = True
    """Whether the next bytes belong to a head, or arrive between two requests."""
    _body_progressed = False
    """Whether a piece of the body has arrived since the timer was set."""
    _intervals = 0
    """How often the timer was set since the headers were complete."""
    _timer: asyncio.TimerHandle | None = None
    _left = b""
    """Received data that is not yet parsed."""
    _next_parse: asyncio.Handle | None = None
    """The scheduled call that parses more of it."""
    _unread_timer: asyncio.TimerHandle | None = None
    """Runs while more of an answer waits for the client than the connection takes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self.flow = Flow(self.transport, self._go_on_soon)
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        self._cancel_unread_timer()
        self._left = b""
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Give a body that is still arriving the time that replies have: it could hold the process for minutes."""
        super().shutdown()
        wait = settings.REPLY_DRAIN_SECONDS
        self.loop.call_later(wait, lambda: None if self._expects_head else self._refuse(503))

    def data_received(self, data: bytes) -> None:
        if len(data) <= SLICE_BYTES and not self.pipeline:
            self._parse(data)
        else:
            self._left = data
            self.flow.hold()
            self._parse_pending()

    def _parse_pending(self) -> None:
        """Parse the received data until the time is used up, uvicorn pauses reading, or a request must wait."""
        self._next_parse = None
        left, self._left = self._left, b""
        until = time.perf_counter() + PARSE_SECONDS
        for start in range(0, len(left), SLICE_BYTES):
            is_over = time.perf_counter() > until
            # An earlier request is still being answered, or the application reads the body more slowly than it
            # arrives. uvicorn resumes reading after each answer, however many requests still wait.
            if is_over or self.flow.is_paused or self.pipeline:
                self._left = left[start:]
                self._next_parse = self.loop.call_later(REST_SECONDS, self._parse_pending) if is_over else None
                return
            self._parse(left[start : start + SLICE_BYTES])
            if self.transport.is_closing():
                return
        self.flow.release()

    def _go_on_soon(self) -> None:
        if self._next_parse is None:
            self._next_parse = self.loop.call_soon(self._parse_pending)

    def _parse(self, data: bytes) -> None:
        self._unused += len(data)
        super().data_received(data)
        if self._unused > settings.REQUEST_HEAD_MAX_BYTES:
            is_long = self._expects_head and len(self.url) > settings.REQUEST_HEAD_MAX_BYTES // 2
            self._refuse(414 if is_long else 431)
        elif self._timer is None and (self._unused or not self._expects_head):
            self._set_timer()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400)

    # Parser callbacks

    def on_headers_complete(self) -> None:
        super().on_headers_complete()  # which raises for a URL that it cannot parse: then there is no request
        self._unused, self._expects_head, self._intervals = 0, False, 0
        self._cancel_timer()
        if not self.parser.should_upgrade():
            self.headers = []  # collects the trailers, which are not headers of the request

    def on_body(self, body: bytes) -> None:
        self._unused, self._body_progressed = 0, True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unused, self._expects_head = 0, True
        self._cancel_timer()
        super().on_message_complete()

    # Time

    def _set_timer(self) -> None:
        self._body_progressed, self._intervals = False, self._intervals + 1
        self._timer = self.loop.call_later(settings.REQUEST_RECEIVE_SECONDS, self._is_late)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_late(self) -> None:
        self._timer = None
        is_too_long = not self._expects_head and self._intervals >= BODY_INTERVALS
        comes = self._body_progressed or self.flow.read_paused
        if (comes and not is_too_long) or (self._expects_head and self._is_answering()):
            self._set_timer()
        elif self._expects_head and not self._unused:
            self.transport.close()
        else:
            self._refuse(408)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reading()

    def resume_writing(self) -> None:
        self._cancel_unread_timer()
        super().resume_writing()

    def _watch_reading(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._unread_timer = self.loop.call_later(UNREAD_SECONDS, self._check_reading, unread)

    def _check_reading(self, unread: int) -> None:
        """Close the connection if the client has read nothing. Not gently: that would wait for it to read the rest."""
        if self.transport.get_write_buffer_size() < unread:
            self._watch_reading()
        else:
            self._unread_timer = None
            self.transport.abort()

    def _cancel_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    # Refusals

    def _is_answering(self) -> bool:
        """Whether an earlier request of this connection is being answered, or waits for its answer."""
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: int) -> None:
        """Close the connection, after an answer if no other answer is being sent."""
        if self.transport.is_closing():
            return
        is_free = not self._is_answering() if self._expects_head else not self.cycle.response_started
        if is_free and not self.pipeline:
            self.transport.write(self._answer(status))
        self.transport.close()

    def _answer(self, status: int) -> bytes:
        method = "" if self._expects_head else self.scope["method"]
        path = self.url.partition(b"?")[0].decode("latin-1")
        headers, body = asgi.refusal(status, method, path)
        lines = [name + b": " + value + b"\r\n" for name, value in headers]
        return b"".join([STATUS_LINE[status], *lines, b"\r\n", body])
