"""Odd and hostile requests for a completion: never a 5xx, always OpenAI's shape."""

import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from conversations.accounts.models import Allowance
from conversations.models import Chat
from conversations.openai_api.wire import ChatRequest
from tests.support.completions import VALID, parse, places, with_odd
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client


def complete(client: Client, content: bytes) -> httpx.Response:
    answer: httpx.Response = client.post(
        "chat/completions", content=content, headers={"Content-Type": "application/json"}
    )
    return answer


@pytest.mark.parametrize("odd", first_of(["x\ud800", None, {}, 2**63]), ids=ascii)
def test_completions_accept_odd_values(alice: Client, upstream: FakeUpstream, odd: Any) -> None:
    accepted = 0
    for path in places(VALID):
        content = json.dumps(with_odd(path, odd)).encode()
        if isinstance(parse(content), ChatRequest):
            answer = complete(alice, content)
            assert answer.status_code in (200, 400, 404), (path, answer.text)
            accepted += answer.status_code == 200
    assert accepted


def talk(*said: tuple[str, str], model: str = "arco") -> bytes:
    messages = [{"role": role, "content": content} for role, content in said]
    return json.dumps({"model": model, "messages": messages}).encode()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "no JSON": lambda: b"{" + b" " * 2_000_000,
    "no text": lambda: b"\xff" * 2_000_000,
    "an unknown model": lambda: talk(*[("user", "x" * 150_000), ("assistant", "y")] * 10, ("user", "?"), model="none"),
    "no object": lambda: b"[" + b" " * 2_000_000 + b"]",
    "lists": lambda: b'{"model":"arco","messages":[{"role":"x"},' + b"[]," * 1_000_000 + b"{}]}",
    "objects": lambda: b'{"model":"arco","x":[' + b"{}," * 1_000_000 + b"{}]}",
    "keys": lambda: b'{"model":"arco","metadata":{' + b'"k":"v",' * 400_000 + b'"k":"v"}}',
    "one side": lambda: talk(*[("user", "x" * 3000)] * 1000),
    "many messages": lambda: talk(*[("user", "x")] * 50_001),
}


@pytest.mark.parametrize("shape", first_of(HOSTILE, 3))
def test_a_hostile_body_is_refused_and_counts_against_the_minute(
    alice: Client, upstream: FakeUpstream, settings: Any, shape: str
) -> None:
    settings.RATE_LIMITS = True
    settings.LIMIT_REQUESTS_PER_MINUTE = 2
    content = HOSTILE[shape]()
    told = [complete(alice, content) for _ in range(3)]
    status = 404 if shape == "an unknown model" else 400
    assert [answer.status_code for answer in told] == [status, status, 429], told[0].text
    assert told[0].json()["error"]["type"] == "invalid_request_error"
    assert Allowance.objects.get().minute_requests == 2
    assert not Chat.objects.exists()


@pytest.mark.parametrize("path", ["message/first", "ask", "summarize"])
def test_refused_requests_count_to_the_rate(alice: Client, upstream: FakeUpstream, settings: Any, path: str) -> None:
    settings.RATE_LIMITS = True
    settings.LIMIT_REQUESTS_PER_MINUTE = 2
    assert alice.post(path, json={"x": [[]] * 400_000}).status_code == 400
    assert alice.post(path, json={"x": 1}).status_code == 400
    assert Allowance.objects.get().minute_requests == 2


def test_a_message_of_combining_marks_is_read_in_linear_time(alice: Client, upstream: FakeUpstream) -> None:
    """Their order is made canonical in quadratic time by `unicodedata`, while no other request is answered."""
    marks = "\u064b\u0591" * 75_000
    content = talk(("user", f"a{marks}"), ("assistant", "Yes."), ("user", f"b{marks}"))
    started = time.process_time()
    answer = complete(alice, content)
    assert answer.status_code == 200, answer.text
    assert time.process_time() - started < 3, "a third of a second as a rule; it was a minute"
