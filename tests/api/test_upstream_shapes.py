"""Every shape in which servers answer, streamed: what is stored, shown and counted of it."""

import json
from collections import Counter
from typing import Any

import pytest
from django.contrib.auth.models import User

from chatmemory import metrics
from conversations.models import Chat, Message, Role
from memory.usage import daily
from tests.api.talking import chunks
from tests.support.exhaustive import first_of, first_of_each
from tests.support.fakes.shapes import TOOLS, USAGE, Shape, call, called, shapes, stream_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

QUESTION: Any = {"role": "user", "content": "How far is it?"}


@pytest.fixture(autouse=True)
def chat_style(settings: Any) -> None:
    settings.OPENAI_API_STYLE = "chat"


def ask(client: Client, *messages: Any, **fields: Any) -> Any:
    body = {"model": "arco", "messages": messages or [QUESTION], "tools": TOOLS, **fields}
    return client.post("chat/completions", json=body)


def parse_stream(text: str) -> tuple[str, list[tuple[str, str]], str, dict[str, Any]]:
    """Return the text, the calls, the code of the error and the usage in a stream of our own."""
    content, calls, code, usage = "", [], "", dict[str, Any]()
    for data in chunks(text):
        code = data.get("error", {}).get("reason", code)
        usage = data.get("usage") or usage
        for choice in data.get("choices", ()):
            content += choice["delta"].get("content") or ""
            functions = [one["function"] for one in choice["delta"].get("tool_calls", ())]
            calls += [(one["name"], one["arguments"]) for one in functions]
            if choice["finish_reason"] in ("length", "content_filter"):
                code = {"length": "too_long"}.get(choice["finish_reason"], "refused")
    return content, calls, code, usage


@pytest.mark.promise("P4", "P9")
@pytest.mark.parametrize("shape", first_of_each(shapes(), lambda one: one.kind), ids=lambda one: one.name)
def test_a_streamed_request_with_any_shape_of_answer_is_stored_shown_and_counted(
    alice: Client, upstream: FakeUpstream, settings: Any, shape: Shape
) -> None:
    settings.OPENAI_API_STYLE = shape.style
    upstream.behave(shape.behaviour, lane="stream")
    answer = ask(alice, stream=True, stream_options={"include_usage": True})
    stored = Message.objects.get(role=Role.ASSISTANT)
    assert (stored.status, stored.content) == (shape.status, shape.text)
    assert (stored.error or {}).get("code", "") == shape.code
    payloads = [one.payload or {} for one in Message.objects.filter(role=Role.TOOL_CALL).order_by("seq")]
    assert [(one["name"], one["arguments"]) for one in payloads] == list(shape.calls)
    assert len({one["call_id"] for one in payloads}) == len(shape.calls)

    content, calls, code, usage = parse_stream(answer.text)
    if shape.status == "failed":
        assert answer.json()["error"]["reason"] == shape.code
    else:
        assert (content, calls, code) == (shape.text, list(shape.calls), shape.code)

    [counted] = daily.days_of(User.objects.get()) if shape.status != "failed" else [Counter[str]()]
    if shape.usage:
        assert (counted["input_tokens"], counted["output_tokens"], "estimated" in counted) == (
            *shape.usage,
            False,
        )
    elif shape.status != "failed":
        assert counted["estimated"] == 1
        told = usage.get("prompt_tokens", counted["input_tokens"])  # a stream that breaks off tells none
        assert counted["input_tokens"] == told > 20
        assert counted["output_tokens"] == stored.token_count


@pytest.mark.parametrize("arguments", first_of(["", '{"q": ', "q=1", "[1]", '"q"']))
def test_arguments_that_are_no_object_go_back_to_the_model_as_one(
    alice: Client, upstream: FakeUpstream, settings: Any, arguments: str
) -> None:
    """Strict servers refuse them, in every later prompt of the turn."""
    shape = Shape("", called([call("find", arguments, index=0, id="a")]))
    upstream.script("stream", shape.behaviour)
    [made] = ask(alice).json()["choices"][0]["message"]["tool_calls"]
    assert made["function"]["arguments"] == (arguments or "{}")
    told = [{"role": "assistant", "content": None, "tool_calls": [made]}]
    output = {"role": "tool", "tool_call_id": made["id"], "content": "Eleven."}
    for style in ("chat", "responses"):
        settings.OPENAI_API_STYLE = style
        upstream.behave("normal")
        assert ask(alice, QUESTION, *told, output).status_code == 200
        body = upstream.requests[-1].body
        [sent] = [
            *(one["tool_calls"][0]["function"] for one in body.get("messages", ()) if "tool_calls" in one),
            *(one for one in body.get("input", ()) if one.get("type") == "function_call"),
        ]
        assert json.loads(sent["arguments"]) == ({"arguments": arguments} if arguments else {})
        Chat.objects.all().delete()


@pytest.mark.parametrize("usage", [None, dict.fromkeys(USAGE, 0)])
def test_an_upstream_without_possible_counts_reaches_the_limit_of_the_day_and_is_listed(
    alice: Client, upstream: FakeUpstream, settings: Any, usage: dict[str, int] | None
) -> None:
    settings.RATE_LIMITS = True
    settings.LIMIT_TOKENS_PER_DAY = 2000
    settings.LIMIT_OUTPUT_TOKENS_RESERVED = 100
    upstream.behave(Shape("", stream_of("word " * 300, usage=usage)).behaviour, lane="stream")
    answers = [alice.post("message/first", json={"message": "Go on", "stream": False}) for _ in range(9)]
    statuses = [one.status_code for one in answers]
    passed = statuses.count(200)
    assert 3 <= passed <= 7
    assert statuses == [200] * passed + [429] * (9 - passed)
    [row] = alice.get("usage").json()["results"]
    assert (row["replies"], row["estimated"]) == (passed, passed)
    assert row["output_tokens"] >= 300 * passed


def test_an_estimate_is_marked_in_the_metrics(alice: Client, upstream: FakeUpstream) -> None:
    def counted(by: str) -> float:
        return float(metrics.TOKENS.labels("output", by)._value.get())

    before = counted("us"), counted("upstream")
    upstream.behave(Shape("", stream_of("Eleven")).behaviour, lane="stream")
    alice.ask("How far?")
    assert counted("us") > before[0]
    assert counted("upstream") == before[1]
