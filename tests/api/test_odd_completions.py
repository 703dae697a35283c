"""Every JSON type at every place of a valid request for a completion: never a 5xx, always OpenAI's shape."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conversations.accounts.limits import Limits
from conversations.models import Allowance, Chat
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

DOT = "data:image/gif;base64,R0lGODlhAQABAAAAACw="
VALID: dict[str, Any] = {
    "model": "arco",
    "stream": False,
    "stream_options": {"include_usage": True},
    "store": True,
    "metadata": {"a": "b"},
    "max_tokens": 5,
    "temperature": 1,
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    "tools": [
        {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}},
        {"type": "custom", "custom": {"name": "run", "format": {"type": "text"}}},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "look"}}]},
    },
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "Where is it?", "name": "ann"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_a", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                {"id": "call_b", "type": "custom", "custom": {"name": "run", "input": "x"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_a", "content": "sent"},
        {"role": "tool", "tool_call_id": "call_b", "content": "sent"},
        {"role": "assistant", "content": "It is on its way."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "And this?"},
                {"type": "image_url", "image_url": {"url": DOT, "detail": "low"}},
                {
                    "type": "file",
                    "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="},
                },
            ],
        },
    ],
}
ODD: tuple[Any, ...] = (None, True, 7, -1.5, 2**63, "", "x\ud800", [], [[]], {}, {"a": {}}, {"\ud800": 1})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def with_odd(path: tuple[Any, ...], odd: Any) -> dict[str, Any]:
    body = copy.deepcopy(VALID)
    at: Any = body
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = odd
    return body


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_any_json_type_at_any_place(alice: Client, upstream: FakeUpstream, odd: Any) -> None:
    everywhere = list(places(VALID))
    assert len(everywhere) * len(ODD) >= 500
    for path in everywhere:
        content = json.dumps(with_odd(path, odd)).encode()
        answer = alice.post("chat/completions", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code in (200, 400, 404, 429), (path, answer.text)
        if answer.status_code in (400, 404):
            error = answer.json()["error"]
            assert error["type"] == "invalid_request_error", path
            assert {"param", "code"} <= error.keys(), path
            assert len(error["message"].split()) >= 3, (path, error)


def test_the_valid_request_is_one(alice: Client, upstream: FakeUpstream) -> None:
    assert alice.post("chat/completions", json=VALID).status_code == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 2**63},
        {
            "messages": [
                {"role": "user", "content": [{"type": "file", "file": {"file_data": "data:" + "a" * 300}}]}
            ]
        },
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "file",
                            "file": {"file_data": f"data:{'a' * 300}/b;base64,aGVsbG8=", "filename": "a"},
                        }
                    ],
                }
            ]
        },
    ],
    ids=["more tokens than a column holds", "no media type", "a long media type"],
)
def test_what_a_column_does_not_hold(
    alice: Client, upstream: FakeUpstream, settings: Any, fields: dict[str, Any]
) -> None:
    settings.RATE_LIMITS, settings.LIMITS = True, Limits()
    body = {"model": "arco", "messages": [{"role": "user", "content": "Hello"}], **fields}
    assert alice.post("chat/completions", json=body).status_code == 400


def _lists(count: int) -> bytes:
    return b'{"model":"arco","messages":[{"role":"x"},' + b"[]," * count + b"{}]}"


HOSTILE: dict[str, Callable[[], bytes]] = {
    "lists": lambda: _lists(1_000_000),
    "objects": lambda: b'{"model":"arco","x":[' + b"{}," * 1_000_000 + b"{}]}",
    "keys": lambda: b'{"model":"arco","metadata":{' + b'"k":"v",' * 400_000 + b'"k":"v"}}',
    "one side": lambda: json.dumps(
        {"model": "arco", "messages": [{"role": "user", "content": "x" * 3000}] * 1000}
    ).encode(),
    "many messages": lambda: json.dumps(
        {"model": "arco", "messages": [{"role": "user", "content": "x"}] * 50_001}
    ).encode(),
}


@pytest.mark.parametrize("shape", HOSTILE)
def test_a_hostile_body_is_refused_and_counts_against_the_minute(
    alice: Client, upstream: FakeUpstream, settings: Any, shape: str
) -> None:
    settings.RATE_LIMITS, settings.LIMITS = True, Limits(requests_per_minute=2)
    content = HOSTILE[shape]()
    told = [
        alice.post("chat/completions", content=content, headers={"Content-Type": "application/json"})
        for _ in range(3)
    ]
    assert [answer.status_code for answer in told] == [400, 400, 429], told[0].text
    assert told[0].json()["error"]["type"] == "invalid_request_error"
    assert Allowance.objects.get().minute_requests == 2
    assert not Chat.objects.exists()


def test_a_large_body_for_a_model_that_does_not_exist_counts_too(
    alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    settings.RATE_LIMITS, settings.LIMITS = True, Limits(requests_per_minute=1)
    said = [{"role": "user", "content": "x" * 150_000}, {"role": "assistant", "content": "y"}] * 10
    body = {"model": "none", "messages": [*said, {"role": "user", "content": "And?"}]}
    told = [alice.post("chat/completions", json=body).status_code for _ in range(2)]
    assert told == [404, 429]


@pytest.mark.parametrize("path", ["message/first", "ask", "summarize"])
def test_what_is_refused_elsewhere_counts_too(
    alice: Client, upstream: FakeUpstream, settings: Any, path: str
) -> None:
    settings.RATE_LIMITS, settings.LIMITS = True, Limits(requests_per_minute=2)
    assert alice.post(path, json={"x": [[]] * 400_000}).status_code == 400
    assert alice.post(path, json={"x": 1}).status_code == 400
    assert Allowance.objects.get().minute_requests == 2
