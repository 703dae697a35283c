"""What a request for a completion may hold: every JSON type at every place is read, or refused in OpenAI's shape."""

import json
from typing import Any

import pytest

from conversations.openai_api.errors import RequestError, body_of
from conversations.openai_api.wire import ChatRequest
from tests.api.tool_talk import ANSWERED, CALL, CALLED, LOOK, QUESTION
from tests.support.completions import DOT, ODD, VALID, parse, places, with_odd
from tests.support.exhaustive import first_of
from tests.support.images import data_url, png

LONG_MEDIA_TYPE = f"data:{'a' * 300}/b;base64,aGVsbG8="


IMAGE = {"type": "image_url", "image_url": {"url": DOT}}
BAD_HISTORIES: list[Any] = [
    ([QUESTION, CALLED], "messages.[1].role"),
    ([QUESTION, CALLED, {"role": "user", "content": "And?"}], "messages.[2].role"),
    ([QUESTION, ANSWERED], "messages.[1].role"),
    ([QUESTION, CALLED, {**ANSWERED, "tool_call_id": "call_x"}], "messages.[2].role"),
    ([QUESTION, CALLED, ANSWERED, ANSWERED], "messages.[3].role"),
    ([QUESTION, {**CALLED, "tool_calls": [CALL, CALL]}, ANSWERED], "messages.[1].tool_calls"),
    ([QUESTION, {**CALLED, "tool_calls": [7]}], "messages.[1].tool_calls.[0]"),
    ([QUESTION, {**CALLED, "tool_calls": [{"type": "web"}]}], "messages.[1].tool_calls.[0].type"),
    ([CALLED, ANSWERED], "messages.[0].tool_calls"),
    ([QUESTION, CALLED, {**ANSWERED, "content": 7}], "messages.[2].content"),
    ([QUESTION, CALLED, {**ANSWERED, "content": "x" * 300_000}], "messages.[2].content"),
    ([{"role": "system", "content": [IMAGE]}, QUESTION], "messages.[0].content"),
]
BAD_TOOLS: list[Any] = [
    ({"tools": [{"type": "web_search"}]}, "tools.[0].type"),
    ({"tools": [{"type": "custom", "custom": {"name": "f", "format": "x"}}]}, "tools.[0].custom.format"),
    ({"tools": [{"type": "function"}]}, "tools.[0].function"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools.[0].function.name"),
    ({"tools": [LOOK, LOOK]}, "tools"),
    ({"tools": [LOOK] * 129}, "tools"),
    ({"tools": [LOOK], "tool_choice": "always"}, "tool_choice"),
    ({"tools": [LOOK], "tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [LOOK], "parallel_tool_calls": "no"}, "parallel_tool_calls"),
]


@pytest.mark.parametrize("odd", first_of(ODD, 3), ids=ascii)
def test_any_json_type_at_any_place(odd: Any) -> None:
    everywhere = list(places(VALID))
    assert len(everywhere) * len(ODD) >= 500
    for path in everywhere:
        result = parse(json.dumps(with_odd(path, odd)).encode())
        if isinstance(result, RequestError):
            error = json.loads(json.dumps(body_of(result)).encode())["error"]
            assert error["type"] == "invalid_request_error", path
            assert {"param", "code"} <= error.keys(), path
            assert len(error["message"].split()) >= 3, (path, error)


def test_the_valid_request_is_one() -> None:
    request = parse(json.dumps(VALID).encode())
    assert isinstance(request, ChatRequest)
    assert [one.role for one in request.history] == ["user", "assistant", "tool", "tool", "assistant"]
    assert request.question.startswith("And this?")


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"n": 2}, "n", "unsupported_parameter"),
        ({"logprobs": True}, "logprobs", "unsupported_parameter"),
        ({"temperature": 3}, "temperature", "decimal_above_max_value"),
        ({"max_tokens": 0}, "max_tokens", "integer_below_min_value"),
        ({"max_tokens": 2**63}, "max_tokens", "integer_above_max_value"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
        ({"metadata": {"a": "x" * 513}}, "metadata.a", "string_above_max_length"),
        ({"wrong": 1}, "wrong", "unknown_parameter"),
        ({"messages": []}, "messages", "empty_array"),
        ({"messages": [{"role": "assistant", "content": ""}]}, "messages", "invalid_value"),
        ({"messages": [{"role": "wizard", "content": "Hello"}]}, "messages.[0].role", "invalid_value"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages.[0].content", "invalid_type"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages.[0].content", "invalid_value"),
        ({"messages": [{**ANSWERED, "tool_call_id": ""}]}, "messages.[0].tool_call_id", "invalid_value"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_chat_request_errors_name_their_path(fields: dict[str, Any], param: str, code: str) -> None:
    body = {"model": "arco", "messages": [{"role": "user", "content": "Hello"}], **fields}
    error = parse(json.dumps(body).encode())
    assert isinstance(error, RequestError)
    assert (error.param, error.openai_code) == (param, code)


def test_a_misspelt_parameter_is_named_with_the_right_one() -> None:
    error = parse(json.dumps({"model": "arco", "mesages": [{"role": "user", "content": "Hello"}]}).encode())
    assert str(error) == "Unrecognized request argument supplied: mesages. Did you mean messages?"


DATA = "data:image/png;base64,"


@pytest.mark.parametrize(
    ("part", "param", "code"),
    [
        ({"type": "image_url"}, "image_url", "missing_required_parameter"),
        ({"type": "image_url", "image_url": {"url": "cat.png"}}, "image_url.url", "invalid_value"),
        ({"type": "image_url", "image_url": {"url": f"{DATA}?"}}, "image_url.url", "invalid_value"),
        ({"type": "image_url", "image_url": {"url": f"{DATA}aGk="}}, "image_url.url", "invalid_image_format"),
        (
            {"type": "image_url", "image_url": {"url": DOT, "detail": "sharp"}},
            "image_url.detail",
            "invalid_value",
        ),
        (
            {"type": "image_url", "image_url": {"url": data_url(png(300, 300) + b"x" * 1000)}},
            "image_url.url",
            "string_above_max_length",
        ),
        ({"type": "file", "file": {"file_id": "file-abc"}}, "file.file_id", "unsupported_parameter"),
        ({"type": "file", "file": {"filename": "a"}}, "file.file_data", "missing_required_parameter"),
        *(
            ({"type": "file", "file": {"file_data": url}}, "file.file_data", "invalid_value")
            for url in ("data:aaa", LONG_MEDIA_TYPE)
        ),
        ({"type": "input_audio", "input_audio": {}}, "type", "invalid_value"),
    ],
)
def test_an_image_or_a_file_that_cannot_be_read_is_refused(part: dict[str, Any], param: str, code: str) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Look"}, part]}]
    error = parse(json.dumps({"model": "arco", "messages": messages}).encode())
    assert isinstance(error, RequestError)
    assert (error.param, error.openai_code) == (f"messages.[0].content.[1].{param}", code)


@pytest.mark.parametrize(
    ("fields", "param"),
    [*(({"messages": messages, "tools": [LOOK]}, param) for messages, param in BAD_HISTORIES), *BAD_TOOLS],
)
def test_a_history_or_tools_that_no_upstream_takes_are_refused(fields: dict[str, Any], param: str) -> None:
    error = parse(json.dumps({"model": "arco", "messages": [QUESTION], **fields}).encode())
    assert isinstance(error, RequestError)
    assert error.param == param
