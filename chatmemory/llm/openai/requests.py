"""Builds the body of a request from a prompt, in each API style, with only the fields that the server accepts. Pure.

OpenAI and compatible servers differ. Compatible servers reject or ignore unknown fields, so in chat style only OpenAI
is sent `store` and `prompt_cache_key`. OpenAI's output limit is `max_completion_tokens`, because its reasoning models
refuse `max_tokens`; elsewhere it is `max_tokens`, which every server knows, while Ollama and llama-cpp-python accept
`max_completion_tokens` without obeying it (ollama issue 7125, llama-cpp-python issue 1907).
"""

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.openai.reading import Style
from chatmemory.llm.protocol import Prompt, PromptMessage, ReplyError, Schema, Variant
from chatmemory.text.cleaning import disarm

OPENAI_HOST = "api.openai.com"
OPENAI_URL = f"https://{OPENAI_HOST}/v1"
HINTS = {"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier"}
"""Parameters that do not change the answer: compatible servers may not know them, and are not sent them."""
CLIENTS_TOOLS = ("function", "custom")
"""The types of tools that a client runs. All others are run by a server of the Responses API."""
RESPONSES_ONLY = {"include"}
"""Parameters that Chat Completions does not have."""
CHAT_ONLY = {"seed", "presence_penalty", "frequency_penalty", "logit_bias"}
"""Parameters that the Responses API does not have. Its lack of `stop` is made up for while the answer is read."""
_REFUSED = {
    "stream_options": re.compile("stream_options"),  # Mistral
    "max_tokens": re.compile("max_completion_tokens"),  # Azure
    "stream": re.compile(r"stream must be|stream mode|non-streaming|\bstream=", re.IGNORECASE),  # DashScope
    "response_format": re.compile(""),  # servers have no common words for a lack of structured output
    "text": re.compile(""),
}
"""Fields that some servers refuse, and what they then say of them. None is a client's: `stream` is refused if false,
and the last two are kept in streams."""


def request_body(prompt: Prompt, variant: Variant, *, style: Style, is_openai: bool, stream: bool) -> dict[str, Any]:
    """Return the JSON to send. A prompt's schema requests structured output."""
    model = variant.model
    ids = {call.id: call.sent_to(model).id for one in prompt.messages for call in one.calls}
    messages = [replace(one, call_id=ids.get(one.call_id, one.call_id)) for one in prompt.messages]
    messages = [replace(one, calls=tuple(call.replayed.sent_to(model) for call in one.calls)) for one in messages]
    prompt = replace(prompt, messages=tuple(messages))
    unknown = (set() if is_openai else HINTS) | (RESPONSES_ONLY if style == "chat" else set())
    parameters = {name: value for name, value in prompt.parameters.items() if name not in unknown}
    if cut := stops_to_cut_at(prompt, style):
        parameters["stop"] = [one for one in _stops(prompt) if one not in cut]
        if not parameters["stop"]:
            del parameters["stop"]
    if style == "responses":
        return _responses(prompt, variant, parameters) | {"stream": stream}
    body = _chat(prompt, variant, is_openai=is_openai) | parameters | {"stream": stream}
    return body | ({"stream_options": {"include_usage": True}} if stream else {})


def refused_in(error: ReplyError) -> list[str]:
    """Return the fields that a refusal may mean, the likeliest first."""
    may_mean_ours = error.upstream_status in (400, 422) and error.code == "upstream_error"
    return [name for name, words in _REFUSED.items() if may_mean_ours and words.search(error.upstream_reason)]


def without(body: Mapping[str, Any], refused: Set[str]) -> dict[str, Any]:
    """Return the body with another field, or none, for those that its server refuses."""
    kept = {"response_format", "text"} if body["stream"] else set[str]()
    changed = {name: value for name, value in body.items() if name not in refused or name in kept}
    if "max_tokens" in body and "max_tokens" in refused:
        changed["max_completion_tokens"] = body["max_tokens"]
    return changed | {"stream": body["stream"] or "stream" in refused}


def is_openai_host(base_url: str) -> bool:
    """Whether a base URL is OpenAI's; an empty one is."""
    host = urlsplit(base_url or OPENAI_URL).hostname or ""
    return host == OPENAI_HOST or host.endswith(f".{OPENAI_HOST}")


def stops_to_cut_at(prompt: Prompt, style: Style) -> tuple[str, ...]:
    """Return the stop sequences that are not sent: those with control tokens, or all if the API has none."""
    return tuple(one for one in _stops(prompt) if style == "responses" or disarm(one) != one)


def _stops(prompt: Prompt) -> tuple[str, ...]:
    stops = prompt.parameters.get("stop") or ()
    return (stops,) if isinstance(stops, str) else tuple(stops)


def _responses(prompt: Prompt, variant: Variant, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """`parameters` have the names of Chat Completions; the caller refuses names that this API lacks."""
    text: dict[str, Any] = {}
    if prompt.schema:
        text["format"] = {"type": "json_schema", **_format(prompt.schema)}
    if "response_format" in parameters:
        response_format = dict(parameters["response_format"])
        text["format"] = {**response_format.pop("json_schema", {}), **response_format}
    if "verbosity" in parameters:
        text["verbosity"] = parameters["verbosity"]
    effort = parameters.get("reasoning_effort", variant.reasoning_effort)
    optional = {
        "instructions": prompt.instructions,
        "prompt_cache_key": parameters.get("prompt_cache_key", prompt.cache_key),
        "reasoning": {"effort": effort} if effort else None,
        "max_output_tokens": variant.max_output_tokens,
        "text": text,
        "tools": [tool_item(tool) for tool in prompt.tools],
    }
    body = {"model": variant.model, "input": list(_items(prompt)), "store": False}
    body |= {name: value for name, value in optional.items() if value}
    body = {name: value for name, value in parameters.items() if name not in _NESTED} | body
    if isinstance(choice := parameters.get("tool_choice"), Mapping):
        body["tool_choice"] = _choice_item(choice)
    return body


_NESTED = {"reasoning_effort", "verbosity", "response_format"}


def tool_item(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool of Chat Completions in the Responses API's format; one that the model's server has itself as it is."""
    if tool["type"] not in CLIENTS_TOOLS:
        return dict(tool)
    if tool["type"] == "function":
        # Without `strict`, this API takes every parameter for required.
        return {"type": "function", "strict": False, **tool["function"]}
    custom = {"type": "custom", **tool["custom"]}
    if isinstance(form := custom.get("format"), Mapping) and isinstance(form.get("grammar"), Mapping):
        # Its fields are at the top level here.
        custom["format"] = {"type": form.get("type"), **form["grammar"]}
    return custom


def _choice_item(choice: Mapping[str, Any]) -> dict[str, Any]:
    """A choice of tools: Chat Completions nests it in an object, the Responses API does not."""
    kind = choice["type"]
    if kind != "allowed_tools":
        return {"type": kind, "name": choice[kind]["name"]}
    allowed = choice["allowed_tools"]
    tools = [{"type": tool["type"], "name": tool[tool["type"]]["name"]} for tool in allowed["tools"]]
    return {"type": "allowed_tools", "mode": allowed["mode"], "tools": tools}


def _chat(prompt: Prompt, variant: Variant, *, is_openai: bool) -> dict[str, Any]:
    if prompt.instructions and not variant.system:
        first = PromptMessage("user", prompt.instructions)
        prompt = replace(prompt, instructions="", messages=(first, *prompt.messages))
    messages = prompt.chat_messages
    if is_openai:
        for call in (call for message in messages for call in message.get("tool_calls", ())):
            call.pop("extra_content", None)  # OpenAI refuses unknown fields
    response_format = {"type": "json_schema", "json_schema": _format(prompt.schema)} if prompt.schema else None
    optional = {
        "prompt_cache_key": prompt.cache_key if is_openai else None,
        "reasoning_effort": variant.reasoning_effort,
        "max_completion_tokens" if is_openai else "max_tokens": variant.max_output_tokens,
        "response_format": response_format,
        "tools": [tool for tool in prompt.tools if tool["type"] in CLIENTS_TOOLS],
    }
    body = {"model": variant.model, "messages": messages} | ({"store": False} if is_openai else {})
    return body | {name: value for name, value in optional.items() if value}


def _format(schema: Schema) -> dict[str, Any]:
    return {"name": schema.name, "schema": dict(schema.schema), "strict": True}


def _items(prompt: Prompt) -> Iterator[dict[str, Any]]:
    """The messages as items of the Responses API, where each call is an item of its own."""
    custom = {call.id for message in prompt.messages for call in message.calls if call.is_custom}
    for message in prompt.messages:
        if message.role == "tool":
            kind = "custom_tool_call_output" if message.call_id in custom else "function_call_output"
            yield {"type": kind, "call_id": message.call_id, "output": message.content}
        elif message.attachments:
            parts = [_item_part(one) for one in message.attachments]
            yield {"role": message.role, "content": [{"type": "input_text", "text": message.content}, *parts]}
        elif message.content or not message.calls:
            yield {"role": message.role, "content": message.content}
        for call in message.calls:
            yield from call.reasoning
            kind, arguments = ("custom_tool_call", "input") if call.is_custom else ("function_call", "arguments")
            yield {"type": kind, "call_id": call.id, "name": call.name, arguments: call.arguments, **call.namespace}


def _item_part(attachment: Attachment) -> dict[str, Any]:
    """An image or a file as a part of a Responses API message."""
    if attachment.kind == "file":
        return {"type": "input_file", "filename": attachment.name, "file_data": attachment.link}
    return {"type": "input_image", "image_url": attachment.link, "detail": attachment.detail or "auto"}
