"""What requests contain, by the server they are sent to, and what is left out once a server refused it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from chatmemory.llm.openai.reading import Style
from chatmemory.llm.openai.requests import request_body
from chatmemory.llm.protocol import Prompt, PromptMessage, Schema, UpstreamError, Variant
from tests.support.fakes.behaviours import Behaviour
from tests.support.fakes.upstream import FakeUpstream
from tests.upstream.talking import VARIANT, listen, model_at, run

PROMPT = Prompt(
    (PromptMessage("user", "Hi"), PromptMessage("assistant", "Yes?"), PromptMessage("user", "Well")),
    instructions="Be kind.",
    cache_key="chat-1",
)
SAID = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Yes?"},
    {"role": "user", "content": "Well"},
]
PLAIN = Variant("v", "gpt-x")
FULL = Variant("v", "gpt-x", reasoning_effort="low", max_output_tokens=99)

SCHEMA = Schema("facts", {"type": "object", "properties": {}, "required": [], "additionalProperties": False})


def body(
    style: Style,
    *,
    prompt: Prompt = PROMPT,
    variant: Variant = FULL,
    is_openai: bool = True,
    stream: bool = True,
) -> dict[str, Any]:
    return request_body(prompt, variant, style=style, is_openai=is_openai, stream=stream)


BARE = Prompt(PROMPT.messages)
TOLD = [{"role": "system", "content": "Be kind."}, *SAID]
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
FOR_RESPONSES = {"input": SAID, "instructions": "Be kind.", "reasoning": {"effort": "low"}, "max_output_tokens": 99}
FOR_CHAT = {"messages": TOLD, "reasoning_effort": "low"}
AT_OPENAI = {"store": False, "prompt_cache_key": "chat-1"}


def test_request_has_what_the_style_and_the_server_know_and_no_unset_option() -> None:
    assert body("responses") == {"model": "gpt-x", **FOR_RESPONSES, **AT_OPENAI, "stream": True}
    assert body("chat") == {"model": "gpt-x", **FOR_CHAT, **AT_OPENAI, "max_completion_tokens": 99, **STREAMED}
    assert body("chat", is_openai=False) == {"model": "gpt-x", **FOR_CHAT, "max_tokens": 99, **STREAMED}
    unset = body("responses", prompt=BARE, variant=PLAIN, stream=False)
    assert unset == {"model": "gpt-x", "input": SAID, "store": False, "stream": False}
    unset = body("chat", prompt=BARE, variant=PLAIN, is_openai=False, stream=False)
    assert unset == {"model": "gpt-x", "messages": SAID, "stream": False}


def test_a_schema_asks_for_structured_output() -> None:
    shaped = Prompt(PROMPT.messages, schema=SCHEMA)
    strict = {"name": "facts", "schema": dict(SCHEMA.schema), "strict": True}
    assert body("responses", prompt=shaped)["text"] == {"format": {"type": "json_schema", **strict}}
    assert body("chat", prompt=shaped, is_openai=False)["response_format"] == {
        "type": "json_schema",
        "json_schema": strict,
    }


FORBIDDEN = {"type": "extra_forbidden", "loc": ["body", "stream_options", "include_usage"], "msg": "Not permitted"}
REFUSED = [
    (422, {"object": "error", "message": {"detail": [FORBIDDEN]}}, {"stream_options": {"include_usage": True}}, {}),
    (
        400,
        {"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}},
        {"max_tokens": 9},
        {"max_completion_tokens": 9},
    ),
    (400, {"detail": "Stream must be set to true"}, {"stream": False}, {"stream": True}),
    (
        400,
        {"error": {"message": "parameter.enable_thinking must be set to false for non-streaming calls"}},
        {"stream": False},
        {"stream": True},
    ),
]


def refusal(status: int, told: object) -> Behaviour:
    return Behaviour("body", text=json.dumps(told), code=status, content_type="application/json")


@pytest.mark.parametrize(("status", "told", "before", "after"), REFUSED)
def test_field_refused_by_the_server_is_replaced_from_then_on(
    fake: FakeUpstream, status: int, told: object, before: dict[str, Any], after: dict[str, Any]
) -> None:
    lane = "complete" if "stream" in before else "stream"
    fake.script(lane, refusal(status, told))  # type: ignore[arg-type]  # one of the two lanes
    model, variant = model_at(fake.base_url, "chat"), replace(VARIANT, max_output_tokens=9)
    for _ in range(2):
        if lane == "complete":
            assert model.complete(PROMPT, variant, timeout=10).text == "You said: Well"
        else:
            assert run(listen(model, prompt=PROMPT, variant=variant)).text == "You said: Well"
    first, *others = [request.body for request in fake.requests]
    assert len(others) == 2
    assert others[0] == others[1] == {name: first[name] for name in first if name not in before} | after
    assert first == others[0] | before if not set(after) - set(before) else before.items() <= first.items()


def test_field_refused_twice_or_a_clients_field_is_the_replys_failure(fake: FakeUpstream) -> None:
    status, told, *_ = REFUSED[0]
    fake.script("stream", *2 * [refusal(status, told)])
    outcome = run(listen(model_at(fake.base_url, "chat"), prompt=PROMPT))
    assert (outcome.reply.status, len(fake.requests)) == ("failed", 2)
    assert outcome.reply.error is not None
    assert outcome.reply.error.quotable_reason == "body.stream_options.include_usage: Not permitted"
    fake.clear()
    fake.script("stream", refusal(400, {"error": {"message": "'response_format' is not supported"}}))
    shaped = replace(PROMPT, parameters={"response_format": {"type": "json_object"}})
    assert run(listen(model_at(fake.base_url, "chat"), prompt=shaped)).reply.status == "failed"
    assert len(fake.requests) == 1
    fake.behave(refusal(400, {"error": {"message": "Conversation roles must alternate"}}), lane="complete")
    with pytest.raises(UpstreamError):
        model_at(fake.base_url, "chat").complete(PROMPT, VARIANT, timeout=10)
    assert len(fake.calls("complete")) == 1
