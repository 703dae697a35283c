"""Failures of the upstream: the message is kept, the reply has an honest status, and the next message works."""

import socket
from typing import Any

import pytest

from chatmemory.llm import registry
from chatmemory.llm.openai import client as upstream_client
from chatmemory.llm.protocol import Deadlines
from tests.api.talking import Turn, error, messages, say
from tests.support.exhaustive import first_of, first_row_of
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer, joined

QUICK = Deadlines(first_byte=0.3, idle=0.3, total=0.8, max_bytes=5_000)

# What the upstream does, how the reply ends, and its error code; one of each kind. `tests/upstream` has all.
CASES = [
    ("status?code=400&error=context_length_exceeded", "failed", "context_length_exceeded"),
    ("status?code=429&retry_after=1", "failed", "upstream_error"),
    ("drop", "failed", "upstream_error"),
    ("silent", "failed", "upstream_timeout"),
    ("stall", "incomplete", "upstream_timeout"),
    ("endless?rate=200", "incomplete", "upstream_timeout"),
    ("huge?size=10000000", "incomplete", "too_long"),
    ("cut?after=1600&deltas=30", "incomplete", "upstream_error"),
    ("refused?deltas=5", "incomplete", "refused"),
    ("error_event", "incomplete", "upstream_error"),
    ("bad_utf8", "incomplete", "upstream_error"),
    ("only_at_the_end", "complete", None),
]


@pytest.mark.promise("P4", "P7", "P8", "P9")
@pytest.mark.parametrize(("how", "status", "code"), CASES, ids=[case[0] for case in CASES])
def test_failed_reply_has_code_and_sentence(
    alice: Client, upstream: FakeUpstream, settings: Any, how: str, status: str, code: str | None
) -> None:
    settings.REPLY_DEADLINES = QUICK
    upstream.script("stream", how)
    events = say(alice, "My question")
    turn = Turn.of(events[0].data)
    last = events[-1]
    ending = {"complete": "message.completed"}.get(status, f"message.{status}")
    assert last.name == ending
    message = last.data["message"]
    assert (message["status"], message["content"]) == (status, joined(events))
    assert last.id == str(len(message["content"]))
    assert bool(message["content"]) == (status != "failed")
    if code is None:
        assert message["error"] is None
        assert "error" not in last.data
    else:
        assert message["error"] == last.data["error"]
        assert message["error"]["code"] == code
        assert "sk-" not in message["error"]["message"]
    question, answer = messages(alice, turn.chat)
    assert (question["content"], question["status"]) == ("My question", "complete")
    assert answer == message
    assert len(upstream.requests) == 1, "a person waits: nothing is tried twice"
    after = alice.ask("And now?", turn.chat)
    assert (after["message"]["status"], after["message"]["seq"]) == ("complete", 4)
    assert upstream.requests[-1].said[0][1].startswith("My question")


def test_upstream_unreachable_fails_the_reply(
    alice: Client, upstream: FakeUpstream, live: LiveServer, settings: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    settings.OPENAI_BASE_URL = f"http://127.0.0.1:{free}/v1"
    answer = alice.post("message/first", json={"message": "Kept?", "stream": False})
    details = error(answer, 502, "upstream_error")["details"]
    assert set(details) == {"chat_id", "user_message_id", "message"}
    assert details["message"]["status"] == "failed"
    live.run(registry.aclose())  # only tests change the upstream of a running process
    settings.OPENAI_BASE_URL = upstream.base_url
    chat = details["chat_id"]
    assert alice.ask("Again", chat)["message"]["status"] == "complete"
    assert messages(alice, chat)[0]["content"] == "Kept?"


@pytest.mark.parametrize(
    ("how", "status", "code"),
    first_row_of(
        [
            ("status?code=429", 502, "upstream_error"),
            ("empty", 502, "upstream_error"),
            ("status?code=400&error=context_length_exceeded", 502, "upstream_error"),
            ("silent", 504, "upstream_timeout"),
        ]
    ),
)
def test_without_stream_nothing_at_all_is_a_gateway_error(
    alice: Client, upstream: FakeUpstream, settings: Any, how: str, status: int, code: str
) -> None:
    settings.REPLY_DEADLINES = QUICK
    upstream.script("stream", how)
    answer = alice.post("message/first", json={"message": "x", "stream": False})
    details = error(answer, status, code)["details"]
    assert details["message"]["status"] == "failed"
    assert [row["status"] for row in messages(alice, details["chat_id"])] == ["complete", "failed"]


@pytest.mark.promise("P7")
@pytest.mark.parametrize(
    ("how", "passed_on"),
    [
        ("status?code=429&retry_after=7", "7"),
        ("status?code=429&retry_after=99999999", "600"),
        ("status?code=429", None),
    ],
)
def test_the_upstreams_retry_after_is_passed_on_within_bounds(
    alice: Client, upstream: FakeUpstream, how: str, passed_on: str | None
) -> None:
    upstream.behave(how)
    chat = error(alice.post("message/first", json={"message": "x", "stream": False}), 502, "upstream_error")
    told = {"chat_id": chat["details"]["chat_id"], "message": "again", "stream": False}
    history = {"messages": [{"role": "user", "content": "x"}], "stream": False}
    for path, body in (("message", told), ("ask", history)):
        answer = alice.post(path, json=body)
        failed = error(answer, 502, "upstream_error")
        assert answer.headers.get("retry-after") == passed_on, path
        assert set(failed["details"]["message"]["error"]) == {"code", "message"}


def test_a_summarizers_retry_after_is_passed_on(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_client, "PAUSES", ())
    upstream.behave("status?code=429&retry_after=7", lane="complete")
    talk = [{"role": role, "content": lorem(40)} for role in ("user", "assistant")]
    answer = alice.post("summarize", json={"messages": talk})
    error(answer, 502, "upstream_error")
    assert answer.headers["retry-after"] == "7"


@pytest.mark.parametrize("how", first_of(["stall", "cut?after=1600&deltas=30", "incomplete?error=max_output_tokens"]))
def test_without_stream_something_is_an_answer(alice: Client, upstream: FakeUpstream, settings: Any, how: str) -> None:
    settings.REPLY_DEADLINES = QUICK
    upstream.script("stream", how)
    message = alice.ask("x")["message"]
    assert message["status"] == "incomplete"
    assert message["content"]
    assert message["error"]["code"] in ("upstream_timeout", "upstream_error", "too_long")


def test_failed_text_is_never_remembered_and_cut_text_is_marked(alice: Client, upstream: FakeUpstream) -> None:
    upstream.script("stream", "status?code=500", "cut?after=1600&deltas=30")
    chat = say(alice, "first")[0].data["chat_id"]
    cut = joined(say(alice, "second", chat))
    alice.ask("third", chat)
    said = upstream.requests[-1].said
    assert said == [
        ("user", "first"),
        ("user", "second"),
        ("assistant", f"{cut}\n[cut off]"),
        ("user", "third"),
    ]
    assert alice.get(f"chats/{chat}/brief").json()["unfolded"]["turns"] == 3


def test_exception_during_reply_fails_it(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> Any:
        raise RuntimeError("canary")

    with monkeypatch.context() as patched:
        patched.setattr(registry, "chat_model", broken)
        last = say(alice)[-1]
    assert last.name == "message.failed"
    assert last.data["error"]["code"] == "upstream_error"
    assert "canary" not in str(last.data)
    assert alice.ask("next", last.data["message"]["chat_id"])["message"]["status"] == "complete"
