"""A stream is only a way to read: a client that leaves, stays away or connects twice does not change the reply."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from chatmemory.api import async_view
from chatmemory.database import executors
from conversations.models import ActiveReply, Message
from tests.api.talking import MESSAGE_KEYS, begin_reply, heard, hold_replies, messages, open_stream, reply, say
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer, joined
from tests.support.waiting import wait_for

pytestmark = pytest.mark.pgbouncer


def test_while_it_is_written_a_reply_is_shown_as_streaming(alice: Client, upstream: FakeUpstream) -> None:
    hold_replies(upstream)
    with open_stream(alice, model_variant="arco-pro") as (turn, events):
        said = heard(events)
        wait_for(lambda: reply(alice, turn)["content"] == said)
        now = reply(alice, turn)
        assert sorted(now) == sorted(MESSAGE_KEYS)
        assert (now["status"], now["content"], now["seq"], now["role"]) == ("streaming", said, 2, "assistant")
        assert (now["model_variant"], now["reply_to"]) == ("arco-pro", turn.question)
        assert now["completed_at"] is now["usage"] is now["error"] is None
        assert messages(alice, turn.chat)[-1] == now
        assert not Message.objects.filter(pk=turn.reply).exists(), "a row is written once, when it is final"
        upstream.release()
        rest = list(events)
    last = reply(alice, turn)
    assert (last["status"], last["content"]) == ("complete", said + joined(rest))
    assert not ActiveReply.objects.exists()


@pytest.mark.promise("P5")
def test_a_client_that_leaves_while_its_turn_begins_cancels_nothing(
    alice: Client, upstream: FakeUpstream, live: LiveServer
) -> None:
    gate = threading.Event()
    busy = [
        asyncio.run_coroutine_threadsafe(executors.write(gate.wait, 20), live._server.loop)
        for _ in range(executors._writer()._max_workers)
    ]
    host, port = live.url.removeprefix("http://").split(":")
    body = b'{"message": "gone at once"}'
    head = (
        f"POST /v1/message/first HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {alice.token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port))) as gone:
        gone.sendall(head.encode() + body)
        wait_for(lambda: async_view._serving)
    wait_for(lambda: not live._server.server_state.connections)
    gate.set()
    assert all(one.result(10) for one in busy)
    wait_for(lambda: Message.objects.filter(role="assistant", status="complete").count() == 1)
    assert not ActiveReply.objects.exists()


def test_a_stream_says_how_it_wants_to_be_carried(alice: Client, upstream: FakeUpstream) -> None:
    accepted = {"Accept": "text/event-stream"}
    with alice.http.stream("POST", "/v1/message/first", json={"message": "x"}, headers=accepted) as response:
        response.read()
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["cache-control"] == "no-store, no-transform"
    assert response.headers["x-accel-buffering"] == "no"
    assert "set-cookie" not in response.headers


def test_silence_after_some_words_is_filled_for_every_reader(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conversations.replies.events.KEEP_ALIVE_SECONDS", 0.05)
    hold_replies(upstream)
    turn = begin_reply(alice)
    path = f"/v1/{turn.path}/stream"
    with alice.http.stream("GET", path) as one, alice.http.stream("GET", path) as other:
        readers = [one.iter_lines(), other.iter_lines()]
        for lines in readers * 2:
            assert next(line for line in lines if line.startswith(":")) == ": keep-alive"
        upstream.release()
        assert ["event: message.completed" in list(lines) for lines in readers] == [True, True]


@pytest.mark.promise("P16")
def test_open_streams_hold_no_database_connection(alice: Client, upstream: FakeUpstream, live: LiveServer) -> None:
    from django.db import connection

    if connection.vendor != "postgresql":
        pytest.skip("on SQLite connections are files, and cost nobody anything")

    def sessions() -> Any:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            return cursor.fetchone()

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(lambda n: say(alice, f"warm {n}"), range(50)))
        idle, _ = sessions()
        hold_replies(upstream)
        streams = [pool.submit(say, alice, f"held {n}") for n in range(50)]
        wait_for(lambda: upstream.held() == 50)
        wait_for(lambda: sessions() == (idle, 0))
        upstream.release()
        assert {one.result()[-1].name for one in streams} == {"message.completed"}
