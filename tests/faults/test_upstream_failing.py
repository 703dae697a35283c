"""An upstream that refuses, fails, hangs or is down: few attempts, little time, an accurate code, nothing lost."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chatmemory.llm import registry, retry
from chatmemory.llm.openai.stream_parser import Style
from chatmemory.llm.protocol import Deadlines
from memory.folding.request import request_resummarize
from tests.api.talking import Turn, error, messages, say
from tests.support.factories import add_turns, brief_of, make_chat
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import revisions, run, turn, wait_over
from tests.support.live_server import Client, LiveServer
from tests.upstream.talking import STYLES

pytestmark = pytest.mark.exhaustive

QUICK = Deadlines(first_byte=0.3, idle=0.3, total=0.6, max_bytes=20_000)
SLACK = 1.0
"""Seconds that a turn may take beyond the upstream's deadline."""

FAILURES = {
    "status?code=429&retry_after=1": "upstream_error",
    "status?code=429&error=insufficient_quota": "upstream_error",
    "status?code=500": "upstream_error",
    "status?code=502": "upstream_error",
    "status?code=503&retry_after=30": "upstream_error",
    "status?code=408": "upstream_error",
    "status?code=401": "upstream_error",
    "endless_error": "upstream_error",
    "drop": "upstream_error",
    "drop?how=reset": "upstream_error",
    "cut?after=0&how=reset": "upstream_error",
    "silent": "upstream_timeout",
    "normal?delay=5": "upstream_timeout",
    "drip?every=0.01": "upstream_timeout",
}
"""What the upstream does before any text, and the code that a client gets."""


@pytest.mark.promise("P7")
@pytest.mark.usefixtures("house")
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("how", FAILURES)
def test_one_attempt_in_time_an_honest_code_and_another_try(
    alice: Client, upstream: FakeUpstream, settings: Any, style: Style, how: str
) -> None:
    settings.OPENAI_API_STYLE, settings.REPLY_DEADLINES = style, QUICK
    upstream.script("stream", how, how, "normal?text=There you are.")
    answer, seconds = timed(lambda: alice.post("message/first", json={"message": "Kept?", "stream": False}))
    code = FAILURES[how]
    details = error(answer, 504 if code == "upstream_timeout" else 502, code)["details"]
    assert details["message"]["error"]["code"] == code
    assert seconds <= QUICK.total + SLACK
    again = f"{Turn.of(details).path}/regenerate"
    events, seconds = timed(lambda: alice.events("POST", again, json={}))
    assert (events[-1].name, events[-1].data["error"]["code"]) == ("message.failed", code)
    assert seconds <= QUICK.total + SLACK
    assert len(upstream.requests) == 2, "a person waits: nothing is tried twice"
    third = alice.post(again, json={"stream": False})
    assert third.json()["message"]["content"] == "There you are."
    told = [(row["content"], row["status"]) for row in messages(alice, details["chat_id"])]
    assert told == [("Kept?", "complete"), ("", "failed"), ("", "failed"), ("There you are.", "complete")]


@pytest.mark.promise("P7")
@pytest.mark.usefixtures("house")
@pytest.mark.parametrize("how", ["refused", "full"])
def test_an_upstream_that_cannot_be_connected_to(
    alice: Client, upstream: FakeUpstream, live: LiveServer, settings: Any, how: str
) -> None:
    settings.REPLY_DEADLINES = QUICK
    with nobody(how == "full") as port:
        settings.OPENAI_BASE_URL = f"http://127.0.0.1:{port}/v1"
        events, seconds = timed(lambda: say(alice, "Kept?"))
    assert events[-1].name == "message.failed"
    assert events[-1].data["error"]["code"] == ("upstream_timeout" if how == "full" else "upstream_error")
    assert seconds <= QUICK.total + SLACK
    live.run(registry.aclose())  # only tests change the upstream of a running server
    settings.OPENAI_BASE_URL = upstream.base_url
    chat = events[0].data["chat_id"]
    assert alice.ask("And now?", chat)["message"]["status"] == "complete"
    assert messages(alice, chat)[0]["content"] == "Kept?"


@pytest.mark.promise("P7")
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("how", "tries"),
    [
        ("status?code=429", 3),
        ("status?code=500", 3),
        ("drop", 3),
        ("drop?how=reset", 3),
        ("cut?after=20&how=close", 3),
        ("status?code=401", 1),
        ("status?code=429&retry_after=60", 1),
        ("silent", 1),
        ("drip?every=0.01", 1),
    ],
)
def test_a_summarizer_that_fails_is_asked_a_counted_number_of_times(
    upstream: FakeUpstream,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    tries: int,
) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)
    hangs = how in ("silent", "drip?every=0.01")
    settings.SUMMARIZER_TOTAL_SECONDS = (
        0.6 if hangs else 5.0
    )  # an upstream that answers gets the time a busy machine may need
    chat = make_chat()
    add_turns(chat, [turn(number) for number in range(1, 9)])
    request_resummarize(chat, "update")
    upstream.behave(how, lane="complete")
    for attempt in range(1, settings.MEMORY_FOLD_ATTEMPTS + 1):
        wait_over(chat)
        _, seconds = timed(lambda: run(chat))
        assert seconds <= settings.SUMMARIZER_TOTAL_SECONDS + SLACK
        assert (len(upstream.requests), brief_of(chat).attempts) == (attempt * tries, attempt)
    assert [row.model for row in revisions(chat)] == ["offline"]
    run(chat)
    assert len(upstream.requests) == settings.MEMORY_FOLD_ATTEMPTS * tries, "it is left alone now"


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the call's result, and the seconds it took."""
    started = time.monotonic()
    return call(), time.monotonic() - started


@contextmanager
def nobody(full: bool) -> Iterator[int]:
    """A port that refuses connections; or, if `full`, one whose queue is full, so that connections hang."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port: int = server.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        if full:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
        else:
            server.close()
        yield port
        for one in waiting:
            one.close()
