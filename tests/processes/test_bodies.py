"""Bodies without a length: cut off at the limit, at once, and never held in memory."""

import socket
import statistics
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from conversations.models import Chat
from tests.faults.bench.resident import MB, resident
from tests.support.live_server import Client
from tests.support.processes import Product

pytestmark = [pytest.mark.processes, pytest.mark.slow]

CHUNK = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
"""64 KiB in chunked transfer coding."""
FIVE_MB = 80
BODIES = 20
ROOM = 16 * MB
"""The limit on the growth of the server's peak memory: less than one body in every five."""


def opened(client: Client) -> socket.socket:
    """Return a connection on which a body is announced without its length."""
    where = urlsplit(client.base)
    assert where.hostname is not None
    made = socket.create_connection((where.hostname, where.port or 80), timeout=20)
    head = (
        "POST /v1/message/first HTTP/1.1",
        f"Host: {where.netloc}",
        f"Authorization: Bearer {client.token}",
        "Content-Type: application/json",
        "Transfer-Encoding: chunked",
    )
    made.sendall("\r\n".join([*head, "", ""]).encode() + b'd\r\n{"message": "\r\n')
    return made


def answer_to(connection: socket.socket, chunks: int) -> str:
    """Return the answer while `chunks` chunks are sent; the server need not read them all."""
    with suppress(ConnectionResetError, BrokenPipeError):
        for _ in range(chunks):
            connection.sendall(CHUNK)
        connection.sendall(b"0\r\n\r\n")
    said = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            said += piece
    return said.decode()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process from /proc")
@pytest.mark.promise("P20")
def test_a_body_of_5_mb_without_a_content_length(offline_product: Product) -> None:
    server = offline_product.server()
    client = offline_product.client()
    client.ask("Hello")
    pid, seconds = server.process.pid, list[float]()
    for number in range(BODIES):
        if number == 2:
            before = resident(pid, "VmHWM")  # after the peak that one such body needs
        started = time.monotonic()
        with opened(client) as connection:
            said = answer_to(connection, FIVE_MB)
        seconds.append(time.monotonic() - started)
        assert said.startswith("HTTP/1.1 413 "), said
        assert '"too_large"' in said
        assert "x-request-id: " in said
    assert statistics.median(seconds) < 1
    assert resident(pid, "VmHWM") - before < ROOM
    assert Chat.objects.count() == 1
    client.ask("The next one works.")
