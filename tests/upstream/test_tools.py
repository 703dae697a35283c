"""The client's tools: how each API style offers them, and the model's calls of them in a stream."""

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.openai.reading import MAX_CALLS, ReplyReader, Style
from chatmemory.llm.openai.requests import request_body
from chatmemory.llm.protocol import Reply, Variant
from tests.support.fakes.speech import Call, End, Speech
from tests.upstream.talking import PROMPT, STYLES

LOOK: dict[str, Any] = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
ARGUMENTS = '{"goal":"Learn vibrato, \\u00e9 語 😀","decisions":["AB-1234"]}'


def read(style: Style, *chunks: bytes, max_bytes: int = 10**6) -> tuple[str, Reply]:
    reader = ReplyReader(style, terminal="strict", max_bytes=max_bytes, takes_calls=True)
    text = "".join([reader.feed(chunk) for chunk in chunks]) + reader.finish()
    return text, reader.reply(model="m")


def arguments(reply: Reply) -> list[str]:
    return [call.arguments for call in reply.calls]


def sent(style: Style, *parts: dict[str, Any]) -> bytes:
    """Make a stream of these events."""
    end: dict[str, Any] = {"type": "response.completed", "response": {"status": "completed"}}
    if style == "chat":
        end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    return b"".join(b"data: " + json.dumps(part).encode() + b"\n\n" for part in (*parts, end))


def chat_call(piece: object, name: object = "look_up", **part: Any) -> dict[str, Any]:
    function = {"arguments": piece, "name": name}
    return {"choices": [{"delta": {"tool_calls": [{"function": function, **part}]}}]}


@pytest.mark.parametrize("style", STYLES)
def test_a_tool_is_offered_as_the_style_has_it(style: Style) -> None:
    offering = replace(PROMPT, tools=(LOOK,))
    body = request_body(offering, Variant("v", "gpt-x"), style=style, is_openai=True, stream=True)
    offered = {"type": "function", "strict": False, **LOOK["function"]} if style == "responses" else LOOK
    assert body["tools"] == [offered]


@pytest.mark.parametrize("style", STYLES)
@given(cuts=st.lists(st.integers(0, 5000), max_size=20))
def test_any_cut_reads_the_same_call(style: Style, cuts: list[int]) -> None:
    speech = Speech(style, "gpt-fake", "resp_1", calls=(Call("look_up", ARGUMENTS),))
    events = [*speech.opening(), speech.delta("Hello"), *speech.calling(), *speech.closing("Hello", End())]
    stream = b"".join(events)
    marks = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    text, reply = read(style, *(stream[start:end] for start, end in itertools.pairwise(marks)))
    assert (text, reply.status, arguments(reply)) == ("Hello", "complete", [ARGUMENTS])


def test_calls_differ_by_index_or_by_id_and_all_have_an_id() -> None:
    parts = [chat_call('{"a":1}', index=0, id="a"), chat_call('{"b":', index=1), chat_call("2}", index=1)]
    reply = read("chat", sent("chat", *parts))[1]
    assert arguments(reply) == ['{"a":1}', '{"b":2}']
    assert reply.calls[0].id == "a"
    assert re.fullmatch("[a-z0-9]{9}", reply.calls[1].id), "as Mistral's servers demand"
    same_index = [chat_call('{"a":1}', index=0, id="a"), chat_call('{"b":2}', index=0, id="b")]
    assert arguments(read("chat", sent("chat", *same_index))[1]) == ['{"a":1}', '{"b":2}']
    items = [{"type": "function_call", "name": "x", "call_id": one, "arguments": one} for one in "ab"]
    done = [{"type": "response.output_item.done", "item": item} for item in items]
    assert arguments(read("responses", sent("responses", *done))[1]) == ["a", "b"]
    end = {"type": "response.completed", "response": {"status": "completed", "output": items}}
    assert arguments(read("responses", sent("responses", end))[1]) == ["a", "b"], "sent at the end alone"


@pytest.mark.parametrize("bad", [None, 5, ["x"], {"y": 1}])
def test_a_call_of_the_wrong_shape_ends_no_reply(bad: object) -> None:
    strange: list[dict[str, Any]] = [
        {"choices": [{"delta": {"content": "Hello"}}]},
        {"choices": [{"delta": {"tool_calls": bad}}]},
        {"choices": [{"delta": {"tool_calls": [bad]}}]},
        chat_call(bad, name=bad, index=bad, id=bad),
    ]
    text, reply = read("chat", sent("chat", *strange))
    assert (text, reply.status, reply.calls) == ("Hello", "complete", ())
    item = {"type": "function_call", "name": bad, "arguments": bad}
    events: list[dict[str, Any]] = [
        {"type": "response.output_text.delta", "delta": "Hello"},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.output_item.done", "item": bad},
        {"type": "response.completed", "response": {"output": [item]}},
    ]
    text, reply = read("responses", sent("responses", *events))
    assert (text, reply.status, reply.calls) == ("Hello", "complete", ())


@pytest.mark.parametrize(
    "parts",
    [
        [chat_call("x" * 10_000, index=0, id="a") for _ in range(20)],
        [chat_call("", index=at) for at in range(MAX_CALLS + 1)],
    ],
)
def test_endless_calls_are_too_long(parts: list[dict[str, Any]]) -> None:
    reply = read("chat", sent("chat", {"choices": [{"delta": {"content": "a"}}]}, *parts), max_bytes=10**5)[1]
    assert (reply.status, reply.error and reply.error.code, reply.calls) == ("incomplete", "too_long", ())


def test_a_call_is_cleaned_like_text() -> None:
    parts = [chat_call("a\0b", index=0, id="a\0"), chat_call("\ud83d", index=0)]
    [call] = read("chat", sent("chat", *parts))[1].calls
    assert (call.id, call.arguments) == ("a", "ab\ufffd")


def test_tool_calls_not_requested_are_dropped() -> None:
    reader = ReplyReader("chat", terminal="strict", max_bytes=10**6)
    reader.feed(sent("chat", chat_call("{}", index=0, id="a")))
    assert (reader.finish(), reader.reply(model="m").status) == ("", "failed")
