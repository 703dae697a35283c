"""What requests contain, by the server they are sent to."""

from typing import Any

from chatmemory.llm.openai.reading import Style
from chatmemory.llm.openai.requests import request_body
from chatmemory.llm.protocol import Prompt, PromptMessage, Schema, Variant

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
