"""`python -m tests.faults.bench.nuisance HOST PORT WHAT`: unauthenticated connections that strain a server.

Prints `begun` once it is at work, and continues until it is killed. It ignores what the server sends, but opens a new
connection when one is closed.
"""

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

PIECE = 16_384
HOST = b"Host: 127.0.0.1\r\n"
POST = b"POST /v1/chats HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SEND: dict[str, tuple[bytes, bytes]] = {
    "a header without an end": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: ", b"x" * PIECE),
    "headers without an end": (b"GET /healthz HTTP/1.1\r\n" + HOST, b"X: x\r\n" * 2000),
    "a URL without an end": (b"GET /", b"x" * PIECE),
    "trailers without an end": (CHUNKED + b"1\r\n{\r\n0\r\n", b"X: x\r\n" * 2000),
    "an extension of a chunk without an end": (CHUNKED + b"1;", b"x" * PIECE),
    "a body in chunks of a byte": (CHUNKED, b"1\r\nx\r\n" * 2000),
    "a body without an end": (CHUNKED, b"4000\r\n" + b"x" * PIECE + b"\r\n"),
    "requests in a heap": (b"", (b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n") * 400),
}
"""What a connection sends first, and what it repeats until it is closed."""
HALF_OPEN = "half-open requests"
OPEN = 500
KINDS = (*SEND, HALF_OPEN)
REPORT_SECONDS = 0.2


def main(host: str, port: int, what: str) -> None:
    if what == HALF_OPEN:
        _hold([_connected(host, port) for _ in range(OPEN)])
        return
    for number, _ in enumerate(_floods(host, port, *SEND[what])):
        if not number:
            print("begun", flush=True)


def _hold(connections: list[socket.socket]) -> None:
    for connection in connections:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
    print("begun", flush=True)
    while True:
        time.sleep(REPORT_SECONDS)
        for connection in connections:
            with suppress(OSError):
                connection.sendall(b"x")


def _floods(host: str, port: int, opening: bytes, again: bytes) -> Iterator[None]:
    """Open one connection after another, and fill each until the server closes it."""
    heap = again * (262_144 // len(again))
    while True:
        with suppress(OSError), _connected(host, port) as connection:
            connection.sendall(opening)
            yield
            while True:
                connection.sendall(heap)


def _connected(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), timeout=10)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
