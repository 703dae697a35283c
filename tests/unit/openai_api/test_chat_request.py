"""What a request for a completion may hold: every JSON type at every place is read, or refused in OpenAI's shape."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from conversations.openai_api.chat_request import ChatRequest, read_request
from conversations.openai_api.errors import RequestError
from conversations.openai_api.history import RequestLimits

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
LONG_MEDIA_TYPE = f"data:{'a' * 300}/b;base64,aGVsbG8="
LIMITS = RequestLimits(message_chars=1_000, instructions_chars=2_000, attachment_bytes=1_000)
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


def read(content: bytes) -> ChatRequest | RequestError:
    try:
        return read_request(json.loads(content), LIMITS)
    except RequestError as error:
        return error


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_any_json_type_at_any_place(odd: Any) -> None:
    everywhere = list(places(VALID))
    assert len(everywhere) * len(ODD) >= 500
    for path in everywhere:
        result = read(json.dumps(with_odd(path, odd)).encode())
        if isinstance(result, RequestError):
            error = json.loads(json.dumps(result.body()).encode())["error"]
            assert error["type"] == "invalid_request_error", path
            assert {"param", "code"} <= error.keys(), path
            assert len(error["message"].split()) >= 3, (path, error)


def test_the_valid_request_is_one() -> None:
    request = read(json.dumps(VALID).encode())
    assert isinstance(request, ChatRequest)
    assert [one.role for one in request.history] == ["user", "assistant", "tool", "tool", "assistant"]
    assert request.question.startswith("And this?")


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"n": 2}, "n", "unsupported_parameter"),
        ({"functions": [{"name": "f"}]}, "functions", "unsupported_parameter"),
        ({"logprobs": True}, "logprobs", "unsupported_parameter"),
        ({"top_logprobs": 2}, "top_logprobs", "unsupported_parameter"),
        ({"temperature": 3}, "temperature", "decimal_above_max_value"),
        ({"max_tokens": 0}, "max_tokens", "integer_below_min_value"),
        ({"max_tokens": 2**63}, "max_tokens", "integer_above_max_value"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
        ({"wrong": 1}, "wrong", "unknown_parameter"),
        ({"messages": []}, "messages", "empty_array"),
        ({"messages": [{"role": "assistant", "content": ""}]}, "messages", "invalid_value"),
        ({"messages": [{"role": "wizard", "content": "Hello"}]}, "messages.[0].role", "invalid_value"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages.[0].content", "invalid_type"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages.[0].content", "invalid_value"),
        (
            {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
            "messages.[0].content.[0].type",
            "invalid_value",
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "file", "file": {"file_data": "data:aaa"}}]}
                ]
            },
            "messages.[0].content.[0].file.file_data",
            "invalid_value",
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "file", "file": {"file_data": LONG_MEDIA_TYPE}}]}
                ]
            },
            "messages.[0].content.[0].file.file_data",
            "invalid_value",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_refused_by_its_path(fields: dict[str, Any], param: str, code: str) -> None:
    body = {"model": "arco", "messages": [{"role": "user", "content": "Hello"}], **fields}
    error = read(json.dumps(body).encode())
    assert isinstance(error, RequestError)
    assert (error.param, error.openai_code) == (param, code)
