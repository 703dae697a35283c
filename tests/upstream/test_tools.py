"""A tool offered with the prompt, and its call in a reply, in both API styles."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.openai.requests import request_body
from chatmemory.llm.openai.stream import MAX_CHARS, ReplyReader, Style
from chatmemory.llm.protocol import Prompt, Reply, Tool, Variant
from tests.support.fakes.speech import Call, End, Speech
from tests.support.fakes.upstream import FakeUpstream
from tests.upstream.talking import PROMPT, STYLES, talk

UPDATE = Tool(
    "update_memory",
    "Update the memory.",
    {"type": "object", "properties": {"goal": {"type": "string"}}},
)
WITH_TOOL = replace(PROMPT, tool=UPDATE)
ARGUMENTS = '{"goal":"Learn vibrato, \\u00e9 語 😀","decisions":["AB-1234"]}'


def body(prompt: Prompt, style: Style) -> dict[str, Any]:
    return request_body(prompt, Variant("arco", "gpt-test"), style=style, is_openai=True, stream=True)


def events(style: Style, text: str, call: Call | None) -> bytes:
    """Make a whole streamed answer that calls a tool."""
    speech = Speech(
        style, "gpt-fake", "resp_1", {"input": 11, "cached": 4, "output": 7}, calls=(call,) if call else ()
    )
    said = [speech.delta(piece) for piece in ([text] if text else [])]
    return b"".join([*speech.opening(), *said, *speech.calling(), *speech.closing(text, End())])


def read(style: Style, *chunks: bytes) -> tuple[str, Reply]:
    reader = ReplyReader(style, terminal="strict", max_bytes=10**6)
    text = "".join([reader.feed(chunk) for chunk in chunks]) + reader.finish()
    return text, reader.reply(model="m")


def sent(style: Style, *parts: dict[str, Any]) -> bytes:
    """Make a stream of these events."""
    end: dict[str, Any] = {"type": "response.completed", "response": {"status": "completed"}}
    if style == "chat":
        end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    return b"".join(b"data: " + json.dumps(part).encode() + b"\n\n" for part in (*parts, end))


def chat_call(arguments: object, **part: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": arguments}, **part}]}}]}


@pytest.mark.parametrize("style", STYLES)
def test_a_tool_is_offered_as_the_style_has_it_and_only_where_there_is_one(style: Style) -> None:
    (offered,) = body(WITH_TOOL, style)["tools"]
    function = offered if style == "responses" else offered["function"]
    assert offered["type"] == "function"
    assert function["name"] == "update_memory"
    assert "goal" in function["parameters"]["properties"]
    assert function.get("strict", False) is False
    assert {**body(PROMPT, style), "tools": [offered]} == body(WITH_TOOL, style)


@pytest.mark.parametrize("style", STYLES)
def test_nothing_is_left_with_the_provider(style: Style) -> None:
    for prompt in (PROMPT, WITH_TOOL):
        assert body(prompt, style)["store"] is False
        assert "previous_response_id" not in body(prompt, style)


@pytest.mark.parametrize("style", STYLES)
def test_the_call_comes_with_the_reply(fake: FakeUpstream, style: Style) -> None:
    outcome = talk(fake.base_url, style, prompt=WITH_TOOL)
    assert outcome.summary == ("complete", "", "You said: Where is Ada?")
    assert json.loads(outcome.reply.call)["goal"]
    assert talk(fake.base_url, style).reply.call == ""


@pytest.mark.parametrize("style", STYLES)
def test_a_call_alone_is_no_answer(fake: FakeUpstream, style: Style) -> None:
    fake.behave("normal", says="card_alone")
    outcome = talk(fake.base_url, style, prompt=WITH_TOOL)
    assert outcome.summary == ("failed", "upstream_error", "")
    assert outcome.reply.call


@pytest.mark.parametrize("style", STYLES)
@given(cuts=st.lists(st.integers(0, 5000), max_size=20))
def test_any_cut_reads_the_same_call(style: Style, cuts: list[int]) -> None:
    stream = events(style, "Hello", Call("update_memory", ARGUMENTS))
    marks = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    text, reply = read(style, *(stream[start:end] for start, end in itertools.pairwise(marks)))
    assert (text, reply.status, reply.call) == ("Hello", "complete", ARGUMENTS)


@pytest.mark.parametrize("style", STYLES)
def test_a_stream_that_is_cut_is_complete_only_behind_its_marker(style: Style) -> None:
    stream = events(style, "Hello", Call("update_memory", ARGUMENTS))
    marker = b'"response.completed"' if style == "responses" else b'"finish_reason": "tool_calls"'
    end = stream.index(b"\n\n", stream.rindex(marker)) + 2
    for offset in range(0, len(stream) + 1, 7):
        _, reply = read(style, stream[:offset])
        assert (reply.status == "complete") is (offset >= end), offset
        assert len(reply.call) <= len(ARGUMENTS)


def test_of_several_calls_the_last_counts() -> None:
    parts = [chat_call("", index=0, id="a"), chat_call('{"a":1}', index=0), chat_call("", index=1, id="b")]
    assert (
        read("chat", sent("chat", *parts, chat_call('{"b":', index=1), chat_call("2}", index=1)))[1].call
        == '{"b":2}'
    )
    same_index = [chat_call('{"a":1}', index=0, id="a"), chat_call('{"b":2}', index=0, id="b")]
    assert read("chat", sent("chat", *same_index))[1].call == '{"b":2}'
    items = [{"type": "function_call", "arguments": text} for text in ('{"a":1}', '{"b":2}')]
    done = [{"type": "response.output_item.done", "item": item} for item in items]
    assert read("responses", sent("responses", *done))[1].call == '{"b":2}'


def deltas_alone() -> Iterator[dict[str, Any]]:
    """A call sent by deltas only, not repeated at the end."""
    yield {"type": "response.output_item.added", "item": {"type": "function_call", "name": "update_memory"}}
    for piece in ('{"a"', ":1", "}"):
        yield {"type": "response.function_call_arguments.delta", "delta": piece}


def end_alone() -> Iterator[dict[str, Any]]:
    """A call sent at the end only, without deltas."""
    item = {"type": "function_call", "arguments": '{"a":1}'}
    yield {"type": "response.completed", "response": {"status": "completed", "output": [item]}}


@pytest.mark.parametrize("server", [deltas_alone, end_alone])
def test_servers_that_send_less_are_understood(server: Callable[[], Iterator[dict[str, Any]]]) -> None:
    assert read("responses", sent("responses", *server()))[1].call == '{"a":1}'


@pytest.mark.parametrize("bad", [None, 5, ["x"], {"y": 1}])
def test_a_call_of_the_wrong_shape_ends_no_reply(bad: object) -> None:
    text = {"choices": [{"delta": {"content": "Hello"}}]}
    strange: list[dict[str, Any]] = [
        {"choices": [{"delta": {"tool_calls": bad}}]},
        {"choices": [{"delta": {"tool_calls": [bad]}}]},
    ]
    whole = sent("chat", text, *strange, chat_call(bad, index=bad, id=bad), {"choices": [{"delta": {}}]})
    said, reply = read("chat", whole)
    assert (said, reply.status, reply.call) == ("Hello", "complete", "")
    item: dict[str, Any] = {
        "type": "response.output_item.done",
        "item": {"type": "function_call", "arguments": bad},
    }
    delta = {"type": "response.function_call_arguments.delta", "delta": bad}
    ending = {
        "type": "response.completed",
        "response": {"output": [{"type": "function_call", "arguments": bad}]},
    }
    hello = {"type": "response.output_text.delta", "delta": "Hello"}
    said, reply = read("responses", sent("responses", hello, item, delta, {**item, "item": bad}, ending))
    assert (said, reply.status, reply.call) == ("Hello", "complete", "")


def test_an_endless_call_takes_little_room() -> None:
    parts = [chat_call("x" * 10_000, index=0, id="a") for _ in range(20)]
    assert len(read("chat", sent("chat", *parts))[1].call) == MAX_CHARS


def test_a_call_is_cleaned_like_text() -> None:
    assert (
        read("chat", sent("chat", chat_call("a\0b", index=0), chat_call("\ud83d", index=0)))[1].call
        == "ab\ufffd"
    )
