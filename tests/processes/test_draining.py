"""A server that drains or is killed: readers are sent on, replies end, the process is gone in bounded time."""

import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from knox.models import AuthToken

from conversations.models import ActiveReply
from tests.api.talking import open_stream
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined
from tests.support.processes import Child, Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUICK = {"REPLY_CHECKPOINT_SECONDS": "0.1", "REPLY_LEASE_SECONDS": "2", "REPLY_DRAIN_SECONDS": "1"}

ALONE = "alone"


@dataclass
class Servers:
    """A server to end, another one that stays, and the same user's client of each."""

    product: Product
    first: Child
    here: Client
    there: Client

    def terminate(self) -> None:
        self.first.process.send_signal(signal.SIGTERM)

    def gone(self) -> None:
        """Wait until the first one has ended by itself."""
        wait_for(lambda: self.first.exit_code is not None, "the server ends")
        assert self.first.exit_code in (0, -signal.SIGTERM)


@pytest.fixture
def servers(product: Product, request: pytest.FixtureRequest) -> Iterator[Servers]:
    """Two servers, the first with the options that are the fixture's parameter; or a single one in both roles."""
    product.env |= QUICK
    options = getattr(request, "param", ())
    first = product.server(*(option for option in options if option != ALONE))
    at_first = product.url
    if ALONE not in options:
        product.server()
    token = str(AuthToken.objects.create(User.objects.create(username="alice"))[1])
    with ExitStack() as clients:
        here, there = Client(at_first, token), Client(product.url, token)
        clients.callback(here.http.close)
        clients.callback(there.http.close)
        yield Servers(product, first, here, there)


@pytest.mark.promise("P6")
@pytest.mark.parametrize("servers", [(), ("--workers", "2")], ids=["one process", "two workers"], indirect=True)
def test_readers_reconnect_and_the_reply_is_finished(servers: Servers, fake: FakeUpstream) -> None:
    fake.behave("normal", deltas=40, hold_after=5, rate=100.0)
    fake.hold()
    with open_stream(servers.here) as (turn, events):
        said = next(events).data["delta"]
        fake.wait_until(lambda fake: fake.held() == 1)
        servers.terminate()
        rest = list(events)
    assert rest[-1].name == "reconnect"
    assert rest[-1].data["retry_ms"] > 0
    assert rest[-1].id is None
    said += joined(rest)
    fake.release()
    ending = servers.there.events("GET", f"{turn.path}/stream", headers={"Last-Event-ID": str(len(said))})
    assert ending[-1].name == "message.completed"
    assert said + joined(ending) == ending[-1].data["message"]["content"]
    assert len(ending[-1].data["message"]["content"].split()) == 40
    servers.gone()
    assert len(fake.calls("stream")) == 1
    assert not ActiveReply.objects.exists()


@pytest.mark.parametrize("servers", [(ALONE,)], ids=[ALONE], indirect=True)
def test_answers_that_are_not_streamed_or_stored_do_not_hold_the_process(servers: Servers, fake: FakeUpstream) -> None:
    fake.behave("normal", deltas=40, hold_after=5, lane="stream")
    fake.hold("stream")
    fake.hold("complete")
    servers.product.expected.add("Service Unavailable: /v1/summarize")
    talk = {"messages": [{"role": "user", "content": "x"}]}
    with ThreadPoolExecutor(3) as pool:
        whole = pool.submit(servers.here.post, "message/first", json={"message": "x", "stream": False})
        answer = pool.submit(servers.here.events, "POST", "ask", json=talk)
        summary = pool.submit(servers.there.post, "summarize", json=talk)
        fake.wait_until(lambda fake: (fake.held("stream"), fake.held("complete")) == (2, 1))
        servers.terminate()
        message, last = whole.result(15).json()["message"], answer.result(15)[-1]
        assert summary.result(15).status_code == 503
    assert (message["status"], message["error"]["code"]) == ("incomplete", "interrupted")
    assert (last.name, last.data["error"]["code"]) == ("message.incomplete", "interrupted")
    servers.gone()
    assert servers.product.logged("draining", name=servers.first.name)


@pytest.mark.parametrize("servers", [(ALONE,)], ids=[ALONE], indirect=True)
def test_body_that_arrives_slowly_does_not_hold_the_process(servers: Servers) -> None:
    where = urlsplit(servers.product.url)
    with socket.create_connection((str(where.hostname), where.port or 80), timeout=15) as connection:
        connection.sendall(b"POST /v1/chats HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{")
        wait_for(lambda: servers.here.get("/v1/chats").status_code == 200)  # the other request is there, too
        began = time.monotonic()
        servers.terminate()
        assert connection.recv(65536).startswith(b"HTTP/1.1 503 ")
        servers.gone()
    assert time.monotonic() - began < 15, "as long as a pause in a body may take"
