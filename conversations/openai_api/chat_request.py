"""The body of `POST /v1/chat/completions` → a value, or the error that OpenAI would answer with. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, cast

from annotated_types import MaxLen, MinLen
from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WrapValidator

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.openai.reading import MAX_CALLS, extra_in
from chatmemory.llm.protocol import PromptMessage, ToolCall
from chatmemory.text.cleaning import clean
from conversations.openai_api import wire
from conversations.openai_api.errors import invalid_field
from conversations.openai_api.history import Wording

ONE_SPEAKER = re.compile(r"[^\s<|\\/>]{1,64}")
"""A name of a speaker as OpenAI takes it."""
WORDING = Wording(
    api="Chat Completions",
    field="messages",
    at="messages.[{index}].{field}",
    no_call="Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
    "'tool_calls'.",
    no_output="An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: {ids}",
)

# Messages


class Image(wire.Wire):
    detail: Literal["auto", "low", "high", "original", ""] | None = None
    url: Annotated[str, AfterValidator(wire.image)]


class File(wire.Wire):
    file_id: Annotated[None, BeforeValidator(lambda value: value or None)] = None
    filename: wire.Text | None = None
    file_data: Annotated[str, AfterValidator(wire.file)]


class Part(wire.Typed):
    type: Literal["text", "refusal", "image_url", "file"]
    text: wire.Text | None = None
    refusal: wire.Text | None = None
    image_url: Annotated[Image, AfterValidator(lambda image: image.url)] | None = None
    file: Annotated[File, AfterValidator(lambda file: file.file_data)] | None = None


class FunctionOfCall(wire.Wire):
    name: wire.Id
    arguments: wire.Text


class CustomToolOfCall(wire.Wire):
    name: wire.Id
    input: wire.Text


class Call(wire.Typed):
    type: Literal["function", "custom"] = "function"
    id: wire.CallId = ""
    function: FunctionOfCall | None = None
    custom: CustomToolOfCall | None = None
    extra_content: object = None

    def read(self) -> ToolCall:
        extra = extra_in({"extra_content": self.extra_content})
        if self.custom is not None and self.type == "custom":
            return ToolCall(self.id, self.custom.name, self.custom.input, is_custom=True, extra=extra)
        assert self.function is not None
        return ToolCall(self.id, self.function.name, self.function.arguments, extra=extra)


class WireMessage(wire.Wire):
    """A message of any role. Other fields are left out: SDKs and gateways add them to answers, and clients send them
    back, such as `reasoning_details`, `cache_control`, `parsed` or `timestamp`.
    """

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[list[Part], Field(fail_fast=True), WrapValidator(wire.parts)] | None = None
    refusal: object = None
    name: object = None
    tool_calls: Annotated[list[Call], Field(fail_fast=True), MaxLen(MAX_CALLS)] | None = None
    tool_call_id: wire.CallId | None = None
    function_call: object = None
    audio: object = None


def _read(message: WireMessage, info: ValidationInfo[wire.RequestLimits]) -> PromptMessage | str:
    """Return the message; a text for instructions. Raises if it is too long, or has a field that its role lacks."""
    role, said = message.role, cast("list[str | Attachment] | None", message.content)
    if said is None:
        if role not in ("assistant", "tool"):
            raise invalid_field("a string or a list of parts is expected", "invalid_type", at="content")
        said = [clean(message.refusal) if isinstance(message.refusal, str) else ""]
    if message.tool_calls and role != "assistant":
        raise invalid_field("only the assistant calls tools", "unsupported_parameter", at="tool_calls")
    if (message.tool_call_id is not None) != (role == "tool"):
        raise invalid_field("a tool's message, and no other, has the id of a call", at="tool_call_id")
    for at in ("function_call", "audio"):
        if getattr(message, at):
            raise invalid_field("it is not supported here", "unsupported_parameter", at=at)
    calls = tuple(call.read() for call in message.tool_calls or ())
    if len({call.id for call in calls}) < len(calls):
        raise invalid_field("two calls have the same id", at="tool_calls")
    name = clean(message.name) if isinstance(message.name, str) and role != "tool" else ""
    return wire.message_of(
        role,
        said,
        info.context.message_chars,
        calls=calls,
        call_id=message.tool_call_id or "",
        name=name if ONE_SPEAKER.fullmatch(name) else "",
    )


ReadMessage = Annotated[WireMessage, AfterValidator(_read)]
"""A message that is converted immediately, so that a long history is in memory only once."""


# Parameters


class NamedSchema(wire.Wire):
    name: str


class Format(wire.Typed):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


class Definition(wire.Wire):
    name: Annotated[str, Field(pattern=wire.TOOL_NAME)]
    parameters: dict[str, Any] | None = None
    format: dict[str, Any] | None = None


class WireTool(wire.Typed):
    type: Literal["function", "custom"]
    function: Definition | None = None
    custom: Definition | None = None


Stops = BeforeValidator(lambda value: value if isinstance(value, list) else [value])
"""One text, or a list of some."""


class ChatParameters(wire.PassedOn):
    """The parameters of Chat Completions that are passed to the model as they are."""

    seed: int | None = None
    stop: Annotated[list[Annotated[str, MinLen(1)]], MaxLen(4), Stops] | None = None
    logit_bias: dict[str, Any] | None = None
    response_format: Format | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None


class ChatBody(ChatParameters, wire.Body):
    wording: ClassVar = WORDING
    passed_on: ClassVar = tuple(ChatParameters.model_fields)
    without_effect: ClassVar = {
        "n": 1,
        "logprobs": False,
        "top_logprobs": 0,
        "functions": [],
        "function_call": "none",
        "modalities": ["text"],
        "audio": None,
        "prediction": None,
        "web_search_options": None,
        "moderation": None,
        "prompt_cache_options": None,
    }

    messages: Annotated[list[ReadMessage], MinLen(1), MaxLen(wire.MAX_MESSAGES), Field(fail_fast=True)]
    max_tokens: wire.Limit | None = None
    max_completion_tokens: wire.Limit | None = None
    tools: Annotated[list[WireTool], MaxLen(wire.MAX_TOOLS), Field(fail_fast=True)] = []

    def request(self) -> wire.ChatRequest:
        """Return the request for a reply. Raises `RequestError`."""
        longest = (self.max_tokens, self.max_completion_tokens)
        return self._request(
            cast("list[PromptMessage | str]", self.messages),
            parameters=self.parameters,
            tools=self._given.get("tools", ()),
            include_usage=bool(self.stream_options.include_usage),
            max_tokens=min((limit for limit in longest if limit is not None), default=None),
        )


def read_request(body: object, limits: wire.RequestLimits) -> wire.ChatRequest:
    """Check the parsed `body`. Raises `RequestError`."""
    if isinstance(body, dict) and body.get("stop") in ("", [], [""]):
        body = {**body, "stop": None}
    return ChatBody.read(body, limits).request()
