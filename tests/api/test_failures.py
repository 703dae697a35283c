"""Failures of upstreams: another is asked where one is set, the message is kept, and the status is honest."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from chatmemory.config import environment
from chatmemory.llm import registry
from chatmemory.llm.openai import client as upstream_client
from chatmemory.llm.openai.failures import FAILURES
from chatmemory.llm.protocol import Deadlines, Price, Upstream, Variant
from chatmemory.runtime import fault_points
from conversations.accounts.models import Allowance
from conversations.models import ActiveReply, Message
from tests.api.talking import Turn, begin_reply, error, final, messages, reply, say, sdk
from tests.support.exhaustive import first_of, first_row_of
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined
from tests.support.processes import ROOT
from tests.support.waiting import wait_for

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
    assert set(details) == {"chat_id", "user_message_id", "message"}
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


@pytest.mark.parametrize("failure", [OperationalError, RuntimeError])
def test_a_reply_that_is_stored_is_handed_out(
    alice: Client, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    """The connection is lost, or another error occurs, just after the final message is committed."""
    struck: list[str] = []

    def point(name: str) -> None:
        if name == "finish.committed" and not struck:
            struck.append(name)
            raise failure

    monkeypatch.setattr(fault_points, "point", point)
    events = say(alice, "Hello")
    assert struck
    assert events[-1].name == "message.completed", events[-1]
    assert Message.objects.get(role="assistant").content == events[-1].data["message"]["content"]


@pytest.mark.parametrize("path", ["message", "ask"])
def test_exception_during_reply_fails_it(
    path: str, alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> Any:
        raise RuntimeError("canary")

    asked = {"messages": [{"role": "user", "content": "Hello"}]} if path == "ask" else {"message": "Hello"}
    with monkeypatch.context() as patched:
        patched.setattr(registry, "chat_model", broken)
        last = alice.events("POST", "ask" if path == "ask" else "message/first", json=asked)[-1]
    assert (last.name, last.data["error"]["code"]) == ("message.failed", "upstream_error")
    assert "canary" not in str(last.data)
    if path == "message":
        assert alice.ask("next", last.data["message"]["chat_id"])["message"]["status"] == "complete"


# Several upstreams

PRICE = Price(Decimal(2), Decimal(1), Decimal(8))
OF_BOTH = Deadlines(first_byte=0.3, idle=0.3, total=5)
"""For a reply that two upstreams are asked for."""
REFUSED = "connection refused"


@pytest.fixture
def spare(upstream: FakeUpstream, settings: Any) -> Iterator[FakeUpstream]:
    """A second upstream, in the other style, whose variant `spare` is the fallback of `arco`."""
    with FakeUpstream() as fake:
        own = Upstream(fake.base_url, "sk-spare", "chat")
        second = Variant("spare", "gpt-spare", max_output_tokens=50, price=PRICE, upstream=own)
        first = replace(settings.MODEL_VARIANTS["arco"], fallback=second)
        settings.MODEL_VARIANTS = {"arco": first, "spare": replace(second, fallback=first)}
        yield fake
        assert all(one.headers["authorization"] == "Bearer sk-spare" for one in fake.requests)
        assert all(one.headers["authorization"] == "Bearer sk-test-canary" for one in upstream.requests)
        assert fake.faults == upstream.faults == []


def is_settled() -> bool:
    row = Allowance.objects.get()
    return (row.day_reserved, row.open_streams) == (0, 0)


OWN_FAILURES = [
    *("status?code=500", "status?code=429&retry_after=1", "status?code=429&error=insufficient_quota"),
    *("status?code=401", "drop", "silent", "stall?after=0", "cut?after=200", "error_event?after=0"),
    *("bad_json?after=0", REFUSED),
]


@pytest.mark.parametrize("how", first_of(OWN_FAILURES, 3))
def test_an_upstream_that_fails_before_its_first_word_is_replaced(
    alice: Client, upstream: FakeUpstream, spare: FakeUpstream, settings: Any, how: str
) -> None:
    settings.REPLY_DEADLINES = OF_BOTH
    if how == REFUSED:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            settings.OPENAI_BASE_URL = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    else:
        upstream.behave(how)
    events = say(alice, "My question")
    turn, message = Turn.of(events[0].data), events[-1].data["message"]
    assert (message["status"], joined(events)) == ("complete", "You said: My question")
    assert (message["model_variant"], message["model"]) == ("spare", "gpt-spare")
    assert message["metadata"] == {"requested_variant": "arco"}
    usage = message["usage"]
    fresh = usage["input_tokens"] - usage["cached_tokens"]
    cost = fresh * 2 + usage["cached_tokens"] + usage["output_tokens"] * 8
    assert usage["cost_usd"] == pytest.approx(cost / 1_000_000)
    assert reply(alice, turn) == message
    assert Allowance.objects.get().day_tokens == usage["input_tokens"] + usage["output_tokens"]
    assert is_settled()
    (second,) = spare.requests
    assert (second.path, second.output_limit) == ("/v1/chat/completions", 50)
    assert [one.said for one in upstream.requests] in ([], [second.said])
    assert [row["model_variant"] for row in alice.get("usage").json()["results"]] == ["spare"]


@pytest.mark.parametrize(
    ("how", "status"),
    first_row_of(
        [
            *(("status?code=400", "failed"), ("status?code=404", "failed"), ("empty", "failed")),
            ("status?code=400&error=context_length_exceeded", "failed"),
            ("status?code=400&error=content_filter", "failed"),
            *(("error_event?after=0&error=invalid_prompt", "failed"), ("refused?deltas=5", "incomplete")),
            *(("cut?after=1600&deltas=30", "incomplete"), ("stall?after=1", "incomplete")),
        ],
        3,
    ),
)
def test_fallback_skipped_after_first_word_or_bad_request(
    alice: Client, upstream: FakeUpstream, spare: FakeUpstream, settings: Any, how: str, status: str
) -> None:
    settings.REPLY_DEADLINES = OF_BOTH
    upstream.behave(how)
    message = say(alice)[-1].data["message"]
    assert (message["status"], message["model_variant"], message["metadata"]) == (status, "arco", {})
    assert (len(upstream.requests), spare.requests) == (1, [])


def test_a_fallback_that_fails_is_the_end(alice: Client, upstream: FakeUpstream, spare: FakeUpstream) -> None:
    upstream.script("stream", "status?code=500")
    spare.script("stream", "status?code=503")
    failed = say(alice)[-1].data["message"]
    assert failed["error"]["message"] == "The model provider failed (503)."
    assert (len(upstream.requests), len(spare.requests), is_settled()) == (1, 1, True)
    path = f"chats/{failed['chat_id']}/messages/{failed['id']}/regenerate"
    again = alice.post(path, json={"stream": False}).json()["message"]
    assert (again["model_variant"], again["metadata"]) == ("arco", {}), "what was requested, not what answered"


def test_an_upstream_that_keeps_failing_is_passed_over_until_it_answers(
    alice: Client, upstream: FakeUpstream, spare: FakeUpstream, settings: Any
) -> None:
    variants = [alice.ask("x")["message"]["model_variant"]]
    upstream.behave("status?code=429")
    variants += [alice.ask("x")["message"]["model_variant"] for _ in range(5)]
    assert (variants, len(upstream.requests)) == (["arco", *["spare"] * 5], 1 + FAILURES)
    upstream.behave("normal")
    registry.breaker_of(settings.MODEL_VARIANTS["arco"]).rests_until = 0.0
    assert [alice.ask("x")["message"]["model_variant"] for _ in range(2)] == ["arco", "arco"]


def test_fallback_shares_the_time_of_one_reply(
    alice: Client, upstream: FakeUpstream, spare: FakeUpstream, settings: Any
) -> None:
    settings.REPLY_DEADLINES = Deadlines(first_byte=0.6, idle=0.6, total=0.8)
    upstream.behave("silent")
    spare.behave("silent")
    message = say(alice)[-1].data["message"]
    assert message["error"]["code"] == "upstream_timeout"
    (first,), (second,) = upstream.requests, spare.requests
    assert second.at - first.at > 0.3, "the first had its time"
    settings.REPLY_DEADLINES = Deadlines(first_byte=5, idle=5, total=0.2)
    late = say(alice)[-1].data["message"]
    assert (late["model_variant"], late["metadata"]) == ("arco", {}), "no time was left to ask another"


def test_a_cancel_while_the_fallback_is_asked(alice: Client, upstream: FakeUpstream, spare: FakeUpstream) -> None:
    upstream.behave("status?code=500")
    spare.hold()
    turn = begin_reply(alice)
    wait_for(lambda: spare.held() == 1)
    now = reply(alice, turn)
    assert (now["status"], now["model_variant"]) == ("streaming", "spare"), "any process sees who writes it"
    assert now["metadata"] == {"requested_variant": "arco"}, "also the one that finishes it after a crash"
    message = alice.post(f"{turn.path}/cancel").json()["message"]
    assert (message["status"], message["content"], message["error"]) == ("cancelled", "", None)
    assert (message["model_variant"], message["metadata"]) == ("spare", {"requested_variant": "arco"})
    spare.wait_until(lambda fake: fake.active == 0)
    assert (ActiveReply.objects.exists(), is_settled()) == (False, True)
    spare.release()
    assert alice.ask("next", turn.chat)["message"]["status"] == "complete"


def test_fallback_serves_unstored_requests(alice: Client, upstream: FakeUpstream, spare: FakeUpstream) -> None:
    upstream.behave("status?code=500")
    talk: Any = [{"role": "user", "content": "Hi"}]
    with sdk(alice) as client:
        chunks = client.chat.completions.create(
            model="arco", messages=talk, max_completion_tokens=20, store=False, stream=True
        )
        assert "".join(one.choices[0].delta.content or "" for one in chunks) == "You said: Hi"
    assert spare.requests[-1].output_limit == 20
    message = alice.post("ask", json={"messages": talk, "stream": False}).json()["message"]
    assert (message["model_variant"], message["model"]) == ("spare", "gpt-spare")
    wait_for(is_settled)


def test_a_variant_with_its_own_upstream_needs_no_other(alice: Client, spare: FakeUpstream, settings: Any) -> None:
    settings.OPENAI_API_KEY = settings.OPENAI_BASE_URL = ""
    own = alice.ask("Hello", model_variant="spare")["message"]
    assert (own["model"], own["content"]) == ("gpt-spare", "You said: Hello")
    assert alice.ask("Hello")["message"]["model"] == "offline"
    assert alice.get("models").json()["offline"] is True


@pytest.mark.exhaustive
def test_documented_recipe_of_providers_works(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    section = (ROOT / "docs/recipes.md").read_text().partition("## Several providers")[2].partition("\n## ")[0]
    (recipe,) = re.findall(r"```sh\n(.*?fallback.*?)```", section, re.DOTALL)
    with FakeUpstream() as groq, FakeUpstream() as home:
        script = recipe.replace("make run", "env -0").replace("…", "x")
        script = script.replace("https://api.groq.com/openai/v1", groq.base_url)
        script = script.replace("http://127.0.0.1:11434/v1", home.base_url)
        done = subprocess.run(["bash", "-c", script], env={}, capture_output=True, text=True, check=True)
        given = dict(line.split("=", 1) for line in done.stdout.split("\0") if "_KEY=" in line or "VAR" in line)
        assert json.loads(given["MODEL_VARIANTS"]).keys() == {"arco", "spare", "home"}
        settings.MODEL_VARIANTS = environment.read(given, Path())[0].variants(given)
        upstream.behave("status?code=500")
        turn = Turn.of(alice.ask("Hello"))
        assert final(alice, turn)["metadata"] == {"requested_variant": "arco"}
        assert alice.ask("Hello", model_variant="home")["message"]["model"] == "llama3.1"
        keys = [fake.requests[0].headers["authorization"] for fake in (upstream, groq, home)]
        assert keys == ["Bearer sk-test-canary", "Bearer gsk_x", "Bearer no-key"]


def test_fallback_must_support_requested_features(alice: Client, upstream: FakeUpstream, spare: FakeUpstream) -> None:
    """`spare` speaks Chat Completions; its fallback `arco` speaks the Responses API, which has no `seed`."""
    talk = {"messages": [{"role": "user", "content": "Hello"}], "seed": 1}
    refused = alice.post("chat/completions", json={"model": "arco", **talk})
    told = refused.json()["error"]
    assert (refused.status_code, told["param"], told["code"]) == (400, "seed", "unsupported_parameter")
    assert not Message.objects.exists()
    spare.behave("status?code=500")
    failed = alice.post("chat/completions", json={"model": "spare", **talk})
    assert (failed.status_code, upstream.requests) == (502, [])
    assert spare.requests[-1].body["seed"] == 1
