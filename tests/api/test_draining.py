"""A server that drains: readers leave at once, new turns are refused, replies get time to finish."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from conversations.replies import finish, generation
from tests.api.talking import begin_reply, error, final, open_stream, reply
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer


def test_readers_are_sent_on_and_new_turns_refused(alice: Client, upstream: FakeUpstream, drain: Any) -> None:
    upstream.hold("stream")
    with open_stream(alice) as (turn, events):
        drain()
        assert [event.name for event in events] == ["reconnect"]
    refused = alice.post("message/first", json={"message": "Hello"})
    error(refused, 503, "unavailable")
    assert refused.headers["Retry-After"] == "1"
    upstream.release("stream")
    assert final(alice, turn)["status"] == "complete", "it had its time"


def test_drain_timeout_keeps_partial_reply(alice: Client, upstream: FakeUpstream, drain: Any, settings: Any) -> None:
    settings.REPLY_DRAIN_SECONDS = 0.2
    upstream.behave("stall?after=5", lane="stream")
    with open_stream(alice, "A sentence of which only the beginning is answered") as (turn, events):
        assert next(events).name == "content.delta"
        drain()
        assert list(events)[-1].name == "reconnect"
    cut = final(alice, turn)
    assert (cut["status"], cut["error"]["code"]) == ("incomplete", "interrupted")
    assert cut["content"]


def test_drain_fails_replies_not_begun(alice: Client, upstream: FakeUpstream, drain: Any, settings: Any) -> None:
    settings.REPLY_DRAIN_SECONDS = 0.2
    upstream.hold("stream")
    body = {"model": "arco", "messages": [{"role": "user", "content": "Hello"}], "stream": True}
    with ThreadPoolExecutor() as other:
        answer = other.submit(alice.post, "chat/completions", json=body)
        upstream.wait_until(lambda fake: fake.active)
        drain()
    assert answer.result().status_code == 502


def test_a_server_shuts_down_once_its_replies_are_stored(
    alice: Client,
    live: LiveServer,
    upstream: FakeUpstream,
    drain: Any,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.REPLY_DRAIN_SECONDS = 0.2
    store = finish.finish

    def slowly(*args: Any, **kwargs: Any) -> Any:
        time.sleep(0.5)
        return store(*args, **kwargs)

    monkeypatch.setattr(finish, "finish", slowly)
    upstream.behave("stall?after=5", lane="stream")
    turn = begin_reply(alice, "A sentence of which only the beginning is answered")
    live.run(generation.shut_down())
    assert reply(alice, turn)["status"] == "incomplete"
