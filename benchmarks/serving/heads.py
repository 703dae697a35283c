"""What the bound on headers costs an ordinary request: two servers, with our HTTP protocol and with uvicorn's own.

The same request goes to both over kept connections, in pairs. They take turns at going first, so that other load on the
machine affects both alike.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from django.contrib.auth.models import User
from knox.models import AuthToken

from benchmarks.chats import make_chat
from benchmarks.figures import Figure, Group, percentile
from benchmarks.serving import processes

PAIRS = 1000
WARM_UP = 50
BAR = 1.10
LARGE = 1_000_000
"""Characters of a body: more than is read at once, and too long for a message."""


def run(owner: User, *, pairs: int = PAIRS) -> Group:
    """Return the ratio of a request's time with the bound to the same without, as medians of pairs."""
    token = AuthToken.objects.create(owner)[1]
    chat = make_chat(owner, 20)
    head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n"
    body = '{"message": "%s"}' % ("x" * LARGE)
    post = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    requests = {
        "a probe, /healthz": (f"GET /healthz HTTP/1.1\r\n{head}\r\n", 200, pairs),
        "a page of messages": (f"GET /v1/chats/{chat.pk}/messages HTTP/1.1\r\n{head}\r\n", 200, pairs),
        "a body of 1 MB, refused": (f"POST /v1/message/first HTTP/1.1\r\n{post}\r\n{body}", 400, pairs // 4),
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(processes.fake_upstream("normal"))
        bounded, plain = (
            stack.enter_context(
                _connection(stack.enter_context(processes.server(upstream, folder / "log", http)))
            )
            for http in (processes.BOUNDED, "auto")
        )
        figures = tuple(
            figure
            for name, (text, status, count) in requests.items()
            for figure in _figures(name, bounded, plain, text.encode(), status, count)
        )
    return Group("What the bound on headers costs, with it over without", figures)


def _figures(
    name: str, bounded: socket.socket, plain: socket.socket, request: bytes, status: int, count: int
) -> Iterator[Figure]:
    with_it, without = [], []
    for number in range(WARM_UP + count):
        first, second = (bounded, plain) if number % 2 else (plain, bounded)
        taken = {one: _seconds(one, request, status) for one in (first, second)}
        with_it.append(taken[bounded])
        without.append(taken[plain])
    with_it, without = with_it[WARM_UP:], without[WARM_UP:]
    ratios = [mine / other for mine, other in zip(with_it, without, strict=True)]
    note = (
        f"of {count} pairs; half of them {percentile(ratios, 0.25):.2f} to {percentile(ratios, 0.75):.2f}; "
        f"medians {median(with_it) * 1000:.2f} and {median(without) * 1000:.2f} ms"
    )
    yield Figure(name, median(ratios), "×", bar=BAR, portable=True, note=note)


def _connection(server: processes.Running) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _seconds(connection: socket.socket, request: bytes, status: int) -> float:
    """Return seconds from sending the request to the end of its answer. Raise `RuntimeError` for another status."""
    began = time.perf_counter()
    connection.sendall(request)
    answer = bytearray()
    while not _is_whole(answer):
        piece = connection.recv(262_144)
        if not piece:
            raise RuntimeError("the server closed the connection")
        answer += piece
    taken = time.perf_counter() - began
    if not answer.startswith(b"HTTP/1.1 %d " % status):
        raise RuntimeError(answer[:200].decode("latin-1"))
    return taken


def _is_whole(answer: bytearray) -> bool:
    head, ended, body = answer.partition(b"\r\n\r\n")
    if not ended:
        return False
    _, found, after = head.lower().partition(b"content-length: ")
    if found:
        return len(body) >= int(after.partition(b"\r\n")[0])
    return body.endswith(b"0\r\n\r\n")
