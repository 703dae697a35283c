"""Builds the body of a request from a prompt, in each API style, with only the fields that the server accepts. Pure.

OpenAI and compatible servers differ. Compatible servers reject or ignore unknown fields, so in chat style only OpenAI
is sent `store` and `prompt_cache_key`. OpenAI's output limit is `max_completion_tokens`, because its reasoning models
refuse `max_tokens`; elsewhere it is `max_tokens`, which every server knows, while Ollama and llama-cpp-python accept
`max_completion_tokens` without obeying it (ollama issue 7125, llama-cpp-python issue 1907).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.openai.stream import Style
from chatmemory.llm.protocol import Prompt, PromptMessage, Schema, Variant

OPENAI_HOST = "api.openai.com"
OPENAI_URL = f"https://{OPENAI_HOST}/v1"
_HINTS = {"user", "safety_identifier", "prompt_cache_key", "service_tier"}
"""Parameters that do not change the answer: compatible servers may not know them, and are not sent them."""
CHAT_ONLY = {"seed", "presence_penalty", "frequency_penalty", "logit_bias"}
"""Parameters that the Responses API does not have. Its lack of `stop` is made up for while the answer is read."""


def request_body(
    prompt: Prompt, variant: Variant, *, style: Style, is_openai: bool, stream: bool
) -> dict[str, Any]:
    """Return the JSON to send.

    A prompt's schema requests structured output; for servers without it, the caller removes the schema.
    """
    parameters = {name: value for name, value in prompt.parameters.items() if is_openai or name not in _HINTS}
    if style == "responses":
        body = _responses(prompt, variant)
        return body | _for_responses(body, parameters) | {"stream": stream}
    body = _chat(prompt, variant, is_openai=is_openai) | parameters | {"stream": stream}
    return body | ({"stream_options": {"include_usage": True}} if stream else {})


def is_openai_host(base_url: str) -> bool:
    """Whether a base URL is OpenAI's; an empty one is."""
    host = urlsplit(base_url or OPENAI_URL).hostname or ""
    return host == OPENAI_HOST or host.endswith(f".{OPENAI_HOST}")


def stops_of(prompt: Prompt) -> tuple[str, ...]:
    """Return the stop sequences of a prompt, of which the Responses API knows nothing."""
    stops = prompt.parameters.get("stop") or ()
    return (stops,) if isinstance(stops, str) else tuple(stops)


def _responses(prompt: Prompt, variant: Variant) -> dict[str, Any]:
    body: dict[str, Any] = {"model": variant.model, "input": _items(prompt), "store": False}
    if prompt.instructions:
        body["instructions"] = prompt.instructions
    if prompt.cache_key:
        body["prompt_cache_key"] = prompt.cache_key
    if variant.reasoning_effort:
        body["reasoning"] = {"effort": variant.reasoning_effort}
    if variant.max_output_tokens:
        body["max_output_tokens"] = variant.max_output_tokens
    if prompt.schema:
        body["text"] = {"format": {"type": "json_schema", **_format(prompt.schema)}}
    if prompt.tools:
        body["tools"] = [_for_items(tool) for tool in prompt.tools]
    return body


def _for_items(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool of Chat Completions in the Responses API's format."""
    if tool["type"] == "custom":
        return {"type": "custom", **{name: _flat(value) for name, value in tool["custom"].items()}}
    # Without `strict`, this API takes every parameter for required.
    return {"type": "function", "strict": False, **tool["function"]}


def _flat(value: Any) -> Any:
    """A custom tool's format: the Responses API has the grammar's fields at the top level."""
    if isinstance(value, Mapping) and isinstance(grammar := value.get("grammar"), Mapping):
        return {"type": value.get("type"), **grammar}
    return value


def _for_responses(body: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of Chat Completions in the Responses API's format; the caller refuses those that it does not have."""
    fields = {name: value for name, value in parameters.items() if name not in _NESTED}
    if "reasoning_effort" in parameters:
        fields["reasoning"] = {"effort": parameters["reasoning_effort"]}
    text = dict(body.get("text", {}))
    if "verbosity" in parameters:
        text["verbosity"] = parameters["verbosity"]
    if "response_format" in parameters:
        response_format = dict(parameters["response_format"])
        text["format"] = {**response_format.pop("json_schema", {}), **response_format}
    if isinstance(choice := parameters.get("tool_choice"), Mapping):
        fields["tool_choice"] = _choice_for_items(choice)
    return fields | ({"text": text} if text else {})


_NESTED = {"reasoning_effort", "verbosity", "response_format", "stop"}


def _choice_for_items(choice: Mapping[str, Any]) -> dict[str, Any]:
    """A choice of tools: Chat Completions nests it in an object, the Responses API does not."""
    kind = choice["type"]
    if kind != "allowed_tools":
        return {"type": kind, "name": choice[kind]["name"]}
    allowed = choice["allowed_tools"]
    tools = [{"type": tool["type"], "name": tool[tool["type"]]["name"]} for tool in allowed["tools"]]
    return {"type": "allowed_tools", "mode": allowed["mode"], "tools": tools}


def _chat(prompt: Prompt, variant: Variant, *, is_openai: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"model": variant.model, "messages": prompt.chat_messages}
    if is_openai:
        for message in body["messages"]:
            for call in message.get("tool_calls", ()):
                call.pop("extra_content", None)  # OpenAI refuses unknown fields
        body["store"] = False
        if prompt.cache_key:
            body["prompt_cache_key"] = prompt.cache_key
    if variant.reasoning_effort:
        body["reasoning_effort"] = variant.reasoning_effort
    if variant.max_output_tokens:
        body["max_completion_tokens" if is_openai else "max_tokens"] = variant.max_output_tokens
    if prompt.schema:
        body["response_format"] = {"type": "json_schema", "json_schema": _format(prompt.schema)}
    if prompt.tools:
        body["tools"] = list(prompt.tools)
    return body


def _format(schema: Schema) -> dict[str, Any]:
    return {"name": schema.name, "schema": dict(schema.schema), "strict": True}


def _item_part(attachment: Attachment) -> dict[str, Any]:
    """An image or a file as a part of a Responses API message."""
    if attachment.kind == "file":
        return {"type": "input_file", "filename": attachment.name, "file_data": attachment.link}
    return {"type": "input_image", "image_url": attachment.link, "detail": attachment.detail or "auto"}


def _items(prompt: Prompt) -> list[dict[str, Any]]:
    """The messages as items of the Responses API, where each call is an item of its own."""
    custom = {call.id for message in prompt.messages for call in message.calls if call.is_custom}
    return [item for message in prompt.messages for item in _items_of(message, custom)]


def _items_of(message: PromptMessage, custom: Container[str]) -> Iterator[dict[str, Any]]:
    """The items of one message. `custom` has the ids of custom tools' calls, whose outputs have another item type."""
    if message.role == "tool":
        kind = "custom_tool_call_output" if message.call_id in custom else "function_call_output"
        yield {"type": kind, "call_id": message.call_id, "output": message.content}
        return
    if message.attachments:
        parts = [_item_part(one) for one in message.attachments]
        yield {"role": message.role, "content": [{"type": "input_text", "text": message.content}, *parts]}
        return
    if message.content or not message.calls:
        yield {"role": message.role, "content": message.content}
    for call in message.calls:
        kind, arguments = ("custom_tool_call", "input") if call.is_custom else ("function_call", "arguments")
        yield {"type": kind, "call_id": call.id, "name": call.name, arguments: call.arguments}
