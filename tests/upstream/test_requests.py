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


def test_responses_style() -> None:
    assert body("responses") == {
        "model": "gpt-x",
        "input": SAID,
        "instructions": "Be kind.",
        "store": False,
        "prompt_cache_key": "chat-1",
        "reasoning": {"effort": "low"},
        "max_output_tokens": 99,
        "stream": True,
    }


def test_request_omits_unset_options() -> None:
    bare = Prompt(PROMPT.messages)
    assert body("responses", prompt=bare, variant=PLAIN, stream=False) == {
        "model": "gpt-x",
        "input": SAID,
        "store": False,
        "stream": False,
    }
    assert body("chat", prompt=bare, variant=PLAIN, is_openai=False, stream=False) == {
        "model": "gpt-x",
        "messages": SAID,
        "stream": False,
    }


def test_chat_style_for_openai_itself() -> None:
    assert body("chat") == {
        "model": "gpt-x",
        "messages": [{"role": "system", "content": "Be kind."}, *SAID],
        "store": False,
        "prompt_cache_key": "chat-1",
        "reasoning_effort": "low",
        "max_completion_tokens": 99,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_request_to_compatible_server_has_only_common_fields() -> None:
    assert body("chat", is_openai=False) == {
        "model": "gpt-x",
        "messages": [{"role": "system", "content": "Be kind."}, *SAID],
        "reasoning_effort": "low",
        "max_tokens": 99,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_schema_asks_for_structured_output() -> None:
    shaped = Prompt(PROMPT.messages, schema=SCHEMA)
    strict = {"name": "facts", "schema": dict(SCHEMA.schema), "strict": True}
    assert body("responses", prompt=shaped)["text"] == {"format": {"type": "json_schema", **strict}}
    assert body("chat", prompt=shaped, is_openai=False)["response_format"] == {
        "type": "json_schema",
        "json_schema": strict,
    }
