"""A request for a completion that has a bit of everything, and the same with an odd value at any place of it."""

import json
from typing import Any

from conversations.openai_api.chat_request import read_request
from conversations.openai_api.errors import RequestError
from conversations.openai_api.wire import ChatRequest, RequestLimits
from tests.support.fakes.odd import Path, changed, places

__all__ = ["DOT", "ODD", "VALID", "parse", "places", "with_odd"]

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
LIMITS = RequestLimits(message_chars=1_000, attachment_bytes=1_000)
ODD: tuple[Any, ...] = (None, True, 7, -1.5, 2**63, "", "x\ud800", [], [[]], {}, {"a": {}}, {"\ud800": 1})


def with_odd(path: Path, odd: Any) -> dict[str, Any]:
    body: dict[str, Any] = changed(VALID, path, odd)
    return body


def parse(content: bytes) -> ChatRequest | RequestError:
    try:
        return read_request(json.loads(content), LIMITS)
    except RequestError as error:
        return error
