"""What precedes a body, and what surrounds its chunks: bounded in bytes, number and time, each refused in JSON."""

import json
import re
import socket
import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from chatmemory import http_protocol
from chatmemory.asgi import LINGER_SECONDS
from chatmemory.http_protocol import SLICE_BYTES, HttpProtocol
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer
from tests.support.waiting import wait_for

HOST = b"Host: 127.0.0.1\r\n"
CHUNKED = b"POST /v1/chats HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
PIECE = 8192
MOST = 4 * 1024 * 1024
"""Bytes to send of an endless input, if nothing stops it."""
HEAP = 500
"""Requests that are sent while the first one is being answered."""


def connected(live: LiveServer) -> socket.socket:
    where = urlsplit(live.url)
    return socket.create_connection((str(where.hostname), where.port or 80), timeout=10)


def read_to_its_end(connection: socket.socket) -> bytes:
    got = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            got += piece
    return got


def healthy(connection: socket.socket) -> None:
    """Read one whole answer to `GET /healthz`."""
    got = b""
    while not got.endswith(b'{"status":"ok"}\r\n0\r\n\r\n'):
        piece = connection.recv(65536)
        assert piece, got
        got += piece


def refused(answer: bytes, status: int, code: str) -> None:
    """Assert that this is one answer, in the form of the contract, and the last on its connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    assert status_line.startswith(f"HTTP/1.1 {status} "), answer[:200]
    headers = dict(line.split(": ", 1) for line in lines)
    assert headers["content-type"] == "application/json"
    assert headers["connection"] == "close"
    assert headers["cache-control"] == "no-store"
    assert re.fullmatch(r"[0-9a-f]{32}", headers["x-request-id"])
    error: dict[str, Any] = json.loads(body)["error"]
    assert error["code"] == code
    assert error["message"]


ENDLESS = {
    "a header": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: ", b"x" * PIECE, 431, "headers_too_large"),
    "a URL": (b"GET /", b"x" * PIECE, 414, "url_too_long"),
    "trailers": (CHUNKED + b"1\r\n{\r\n0\r\n", b"X: x\r\n" * 1000, 431, "headers_too_large"),
    "a trailer": (CHUNKED + b"1\r\n{\r\n0\r\nX: ", b"x" * PIECE, 431, "headers_too_large"),
    "an extension of a chunk": (CHUNKED + b"1;", b"x" * PIECE, 431, "headers_too_large"),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_head_without_end_is_refused(live: LiveServer, what: str) -> None:
    opening, again, status, code = ENDLESS[what]
    sent = 0
    with connected(live) as connection:
        with suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(opening)
            while sent < MOST:
                connection.sendall(again)
                sent += len(again)
        assert sent < MOST
        refused(read_to_its_end(connection), status, code)


TOO_MUCH = {
    "a long URL": (b"GET /healthz?" + b"x" * 40_000 + b" HTTP/1.1\r\n" + HOST, 414, "url_too_long"),
    "many headers": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: x\r\n" * 250, 431, "headers_too_large"),
    "large headers in one piece": (
        b"GET /healthz HTTP/1.1\r\n" + HOST + (b"X: " + b"x" * 1000 + b"\r\n") * 100,
        431,
        "headers_too_large",
    ),
    "a header of a few bytes too many": (
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 65_520 + b"\r\n",
        431,
        "headers_too_large",
    ),
    "no HTTP": (b"HELLO\r\n", 400, "invalid_request"),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_too_much_is_refused(live: LiveServer, what: str) -> None:
    head, status, code = TOO_MUCH[what]
    with connected(live) as connection:
        connection.sendall(head + b"\r\n")
        refused(read_to_its_end(connection), status, code)


@pytest.mark.parametrize("before", [b"", b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"])
@pytest.mark.parametrize("line", [b"CONNECT example.com:443", b"GET http:///", b"GET http://[::1/"])
def test_request_line_that_names_no_path_is_refused(live: LiveServer, line: bytes, before: bytes) -> None:
    """As those send who look for open proxies."""
    with connected(live) as connection:
        if before:
            connection.sendall(before)
            healthy(connection)
        connection.sendall(line + b" HTTP/1.1\r\n" + HOST + b"\r\n")
        refused(read_to_its_end(connection), 400, "invalid_request")


def test_heads_within_limits_are_served_one_after_another(live: LiveServer) -> None:
    head = b"GET /healthz?" + b"x" * 30_000 + b" HTTP/1.1\r\n" + HOST + (b"X: " + b"x" * 150 + b"\r\n") * 150
    with connected(live) as connection:
        for _ in range(3):
            for piece in (head[:5], head[5:30_000], head[30_000:], b"\r\n"):
                connection.sendall(piece)
            healthy(connection)


@pytest.mark.exhaustive
def test_a_heap_of_requests_waits_unparsed_and_is_answered_in_order(
    live: LiveServer, alice: Client, upstream: FakeUpstream
) -> None:
    upstream.hold("stream")
    body = b'{"message": "Hello", "stream": false}'
    key = b"Authorization: Bearer " + alice.token.encode() + b"\r\nContent-Type: application/json\r\n"
    first = b"POST /v1/message/first HTTP/1.1\r\n" + HOST + key + b"Content-Length: %d\r\n\r\n" % len(body) + body
    again = b"GET /healthz HTTP/1.1\r\n" + HOST
    with connected(live) as connection:
        connection.sendall(first)
        upstream.wait_until(lambda it: it.held("stream") == 1)
        connection.sendall((again + b"\r\n") * (HEAP - 1) + again + b"Connection: close\r\n\r\n")
        connections = live._server.server_state.connections
        (protocol,) = wait_for(lambda: [one for one in connections if isinstance(one, HttpProtocol) and one._left])
        assert 0 < len(protocol.pipeline) <= SLICE_BYTES // len(again)
        upstream.release("stream")
        got = read_to_its_end(connection)
    assert got.startswith(b"HTTP/1.1 200 OK")
    assert got.index(b'"chat_id"') < got.index(b'{"status":"ok"}')
    assert got.count(b'{"status":"ok"}') == HEAP


def test_a_body_of_any_chunks_is_read_whole(live: LiveServer, alice: Client) -> None:
    title = "0123456789" * 20
    text = b'{"metadata": {"a": "%s"}, "title": "%s"}' % (b"x" * 16_000, title.encode())
    for size in (1, 2, 7, 4096, len(text)):
        pieces = (text[at : at + size] for at in range(0, len(text), size))
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        key = b"Authorization: Bearer " + alice.token.encode() + b"\r\nContent-Type: application/json\r\n"
        with connected(live) as connection:
            connection.sendall(CHUNKED[:-2] + key + b"Connection: close\r\n\r\n" + body)
            answer = read_to_its_end(connection)
        assert answer.startswith(b"HTTP/1.1 201 "), answer
        assert title.encode() in answer


# Time


@pytest.fixture
def impatient(live: LiveServer, settings: Any) -> LiveServer:
    settings.REQUEST_RECEIVE_SECONDS = 0.3
    return live


HALF_OPEN = {
    "half a head": b"GET /healthz HTTP/1.1\r\nHost: ",
    "half a method": b"GE",
    "half a body": b"POST /v1/chats HTTP/1.1\r\n" + HOST + b'Content-Length: 100\r\n\r\n{"title": ',
    "half a chunk": CHUNKED + b'20\r\n{"title": ',
    "no body": b"POST /v1/chats HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n",
}


@pytest.mark.parametrize("what", first_of(HALF_OPEN))
def test_half_a_request_is_refused_when_the_rest_does_not_come(impatient: LiveServer, what: str) -> None:
    with connected(impatient) as connection:
        connection.sendall(HALF_OPEN[what])
        refused(read_to_its_end(connection), 408, "request_timeout")


def test_a_connection_that_says_nothing_is_closed(impatient: LiveServer) -> None:
    with connected(impatient) as connection:
        assert read_to_its_end(connection) == b""


def test_half_a_request_after_a_whole_one_is_refused(impatient: LiveServer) -> None:
    with connected(impatient) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n")
        healthy(connection)
        connection.sendall(b"GET /heal")
        refused(read_to_its_end(connection), 408, "request_timeout")


def test_a_body_that_comes_in_drips_is_served(impatient: LiveServer) -> None:
    body = b'{"username": "a", "password": "b"}'
    lines = [b"POST /v1/auth/token HTTP/1.1", b"Content-Type: application/json", b"Connection: close"]
    with connected(impatient) as connection:
        connection.sendall(b"\r\n".join([*lines, b"Content-Length: %d" % len(body), HOST, b""]))
        connection.settimeout(0.1)
        for start in range(0, len(body) - 4, 4):
            connection.sendall(body[start : start + 4])
            with suppress(TimeoutError):
                assert not connection.recv(65536)
        connection.sendall(body[start + 4 :])
        connection.settimeout(10)
        assert read_to_its_end(connection).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    ("opening", "drip", "intervals"),
    [(b"GET /healthz HTTP/1.1\r\nX: ", b"x", 1), (CHUNKED, b"1\r\nx\r\n", 3)],
    ids=["head", "body"],
)
def test_request_in_drips_without_end_is_refused(
    impatient: LiveServer, monkeypatch: pytest.MonkeyPatch, opening: bytes, drip: bytes, intervals: int
) -> None:
    monkeypatch.setattr(http_protocol, "BODY_INTERVALS", 3)
    began = time.monotonic()
    with connected(impatient) as connection:
        connection.sendall(opening)
        connection.settimeout(0.05)

        def answered() -> bytes:
            with suppress(TimeoutError, BrokenPipeError):
                connection.sendall(drip)
                return connection.recv(65536)
            return b""

        refused(wait_for(answered), 408, "request_timeout")
        assert time.monotonic() - began >= intervals * 0.3


@pytest.mark.parametrize("authorization", [b"", b"Authorization: Bearer x\r\n"])
@pytest.mark.parametrize("length", [b"Content-Length: 30000000", b"Transfer-Encoding: chunked"])
def test_a_large_body_of_a_stranger_is_refused_before_it_is_read(
    live: LiveServer, authorization: bytes, length: bytes
) -> None:
    with connected(live) as connection:
        head = b"POST /v1/chats/import HTTP/1.1\r\nExpect: 100-continue\r\n"
        connection.sendall(head + authorization + length + b"\r\n" + HOST + b"\r\n")
        refused(read_to_its_end(connection), 401, "not_authenticated")


def test_an_answer_that_takes_longer_is_not_cut_off(
    impatient: LiveServer, alice: Client, upstream: FakeUpstream
) -> None:
    upstream.behave("normal?delay=0.6")
    assert alice.ask("Hello")["message"]["status"] == "complete"


@pytest.mark.parametrize("is_announced", [True, False], ids=["announced", "chunked"])
def test_refused_body_is_drained_so_client_reads_error(live: LiveServer, is_announced: bool) -> None:
    """nginx writes the whole request before it reads; if the server closed too soon, the connection would be reset."""
    size = 3 * 1024 * 1024
    length = b"Content-Length: %d" % size if is_announced else b"Transfer-Encoding: chunked"
    with connected(live) as connection:
        connection.sendall(b"POST /v1/chats HTTP/1.1\r\n" + HOST + length + b"\r\n\r\n")
        for _ in range(size // PIECE):
            connection.sendall(b"x" * PIECE if is_announced else b"%x\r\n%s\r\n" % (PIECE, b"x" * PIECE))
        if not is_announced:
            connection.sendall(b"0\r\n\r\n")
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 413 "), answer[:200]
        assert b'"too_large"' in answer + read_to_its_end(connection)


@pytest.mark.exhaustive
def test_a_refused_body_that_never_ends_holds_its_connection_for_a_moment(live: LiveServer) -> None:
    with connected(live) as connection:
        connection.sendall(b"POST /v1/chats HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999\r\n\r\n")
        began = time.monotonic()
        assert read_to_its_end(connection).startswith(b"HTTP/1.1 413 ")
        assert time.monotonic() - began < LINGER_SECONDS + 3
