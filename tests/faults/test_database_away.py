"""A database behind a bad network: slow, silent, or reset. No call waits forever, and all recovers with the network."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest
from django.conf import settings
from django.db import connection

from conversations.models import ActiveReply
from tests.api.talking import Turn, heard
from tests.support.exhaustive import effort
from tests.support.fakes.connection import reset_on_close
from tests.support.fakes.loop import LoopThread
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined
from tests.support.processes import Product, here
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ASKERS = 12
"""More than the server has database connections and threads."""
POOL_SECONDS = 10.0
"""Seconds that a request waits for a connection of the pool before it is refused."""
SLACK = 5.0
EXPECTED = {
    "database unavailable",
    "Service Unavailable: /v1/message/first",
    "Service Unavailable: /v1/message",
    "Service Unavailable: /v1/chats",
    "request failed",
}


class Proxy(LoopThread):
    """Forwards `port` of 127.0.0.1 to `target`, in a thread, like a bad network: slow, silent, or resetting.

    While it is a `hole`, connections stay open and accept data, also new ones, but nothing is forwarded; `mend`
    forwards it all. `reset` ends every connection by RST and accepts no new one until `mend`.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__()
        self.target = (host, port)
        self.port = 0
        self._delay = 0.0
        self._refuses = False
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()

    def slow(self, seconds: float) -> None:
        """Delay every piece by `seconds` from now on, in each direction."""
        self._delay = seconds

    def hole(self) -> None:
        """Forward nothing."""
        self.in_loop(self._open.clear)

    def mend(self) -> None:
        """Forward normally again, including what was held back."""
        self._refuses, self._delay = False, 0.0
        self.in_loop(self._open.set)

    def reset(self) -> None:
        """Reset every connection at once, and new ones until `mend`."""
        self._refuses = True
        self.in_loop(self._abort)

    def _abort(self) -> None:
        for writer in list(self._writers):
            _abort(writer)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def end(self) -> None:
        self._server.close()
        self._abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            _abort(writer)
            return
        await self._open.wait()
        there_reader, there_writer = await asyncio.open_connection(*self.target)
        self._writers |= {writer, there_writer}
        with suppress(ConnectionError):
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


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy between the server and PostgreSQL."""
    if settings.IS_SQLITE:
        pytest.skip("SQLite is no network away")
    at = urlsplit(here())
    with Proxy(at.hostname or "127.0.0.1", at.port or 5432) as made:
        yield made


@pytest.fixture
def far(product: Product, proxy: Proxy) -> Product:
    """One server, whose database is behind the proxy."""
    url = urlsplit(here())
    user = url.netloc.rpartition("@")[0]
    product.env["DATABASE_URL"] = url._replace(netloc=f"{user}@127.0.0.1:{proxy.port}").geturl()
    product.env |= {"LOG_LEVEL": "INFO"}
    product.server()
    product.expected |= EXPECTED
    return product


def _sent(client: Client, number: int) -> tuple[int, float]:
    """Return the status of one message, and the seconds it took."""
    started = time.monotonic()
    body = {"message": f"I am number {number}", "stream": False}
    answer = client.post("message/first", json=body, timeout=120)
    assert answer.status_code in (200, 503), answer.text
    if answer.status_code == 503:
        assert answer.json()["error"]["code"] == "unavailable"
        assert int(answer.headers["retry-after"]) >= 1
    return answer.status_code, time.monotonic() - started


@pytest.mark.promise("P15")
def test_a_database_that_is_silent_for_a_while(far: Product, fake: FakeUpstream, proxy: Proxy) -> None:
    client, hole = far.client(), effort(4, 10)
    fake.behave("normal", lane="stream", deltas=60, rate=60 / hole)
    with (
        ThreadPoolExecutor(ASKERS) as pool,
        client.stream("POST", "message/first", json={"message": "A long one"}) as events,
    ):
        turn = Turn.of(next(events).data)
        said = heard(events)
        proxy.hole()
        begun = time.monotonic()
        sent = [pool.submit(_sent, client, number) for number in range(ASKERS)]
        said += heard(events, 10)  # a stream needs no database
        _is_up_but_not_ready(far.url)
        wait_for(lambda: time.monotonic() - begun > hole, timeout=60)
        proxy.mend()
        longest = max(one.result()[1] for one in sent)
        said += joined(list(events))
    assert longest <= hole + POOL_SECONDS + SLACK
    status, seconds = _sent(client, ASKERS)
    # After a long silence the pool may still be waiting for a connection that the proxy swallowed.
    assert (status, seconds < effort(0, 1) * POOL_SECONDS + SLACK) == (200, True)
    assert client.get(turn.path).json()["content"] == said
    wait_for(lambda: not ActiveReply.objects.exists(), timeout=60)


@pytest.mark.promise("P15")
def test_a_database_that_is_slow_and_then_hangs_up(far: Product, fake: FakeUpstream, proxy: Proxy) -> None:
    client = far.client()
    proxy.slow(0.1)
    assert _sent(client, ASKERS)[0] == 200
    proxy.slow(0)
    with ThreadPoolExecutor(ASKERS) as pool:
        assert {status for status, _ in pool.map(_sent, [client] * ASKERS, range(ASKERS))} == {200}
        proxy.reset()
        refused, _seconds = _sent(client, ASKERS)
        assert refused == 503
        _is_up_but_not_ready(far.url)
        proxy.mend()
        wait_for(lambda: (it := _sent(client, ASKERS))[0] == 200 and it, timeout=30)
        assert {status for status, _ in pool.map(_sent, [client] * ASKERS, range(ASKERS))} == {200}


def _is_up_but_not_ready(url: str) -> None:
    started = time.monotonic()
    assert httpx.get(f"{url}/healthz", timeout=30).status_code == 200
    assert time.monotonic() - started < SLACK
    assert httpx.get(f"{url}/readyz", timeout=30).status_code == 503
    assert time.monotonic() - started < 2 * SLACK


@pytest.mark.django_db
def test_a_connection_whose_other_end_is_gone_does_not_last() -> None:
    """Checks the socket options only: no network can be cut here, and a proxy's kernel would answer for it."""
    if settings.IS_SQLITE:
        pytest.skip("SQLite is no network away")
    connection.ensure_connection()
    told = connection.connection.info.get_parameters()
    idle, interval, count = (int(told[f"keepalives_{name}"]) for name in ("idle", "interval", "count"))
    assert idle + interval * count <= 30
    assert int(told["tcp_user_timeout"]) <= 30_000
    assert int(told["connect_timeout"]) <= 10
