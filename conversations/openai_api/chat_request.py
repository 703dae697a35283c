"""The body of `POST /v1/chat/completions` → a value, or the error that OpenAI would answer with.

Pure. No parameter is dropped silently: one that is neither served here nor passed on to the model is refused by name.
A null field counts as absent. An image or a file comes as a data URL, or an image as a link; nothing is fetched here,
and each leaves a mark in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, cast

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from chatmemory.llm.attachments import IMAGE_TYPES, Attachment, file_of, image_of, read_data_url
from chatmemory.llm.openai.reading import MAX_CALLS, MAX_NAME_CHARS, extra_in
from chatmemory.llm.protocol import PromptMessage, ToolCall
from chatmemory.text.cleaning import clean
from conversations.openai_api.errors import (
    RequestError,
    invalid_field,
    require_storable,
    unsupported,
    validation_error,
)
from conversations.openai_api.history import in_order

MAX_MESSAGES = 50_000
MAX_TOOLS = 128
MAX_TOKENS = 10_000_000
"""The largest limit of an answer; no model writes as much."""
MESSAGES_OF_INSTRUCTIONS = 10
"""System and developer messages may have as much text together as so many longest messages: more than a model reads."""
TOOL_NAME = r"^[a-zA-Z0-9_-]{1,64}$"
MAX_JSON_BYTES = 256 * 1024
"""Limit of the JSON of all tools, which are stored once per chat, and of the parameters passed to the model, which
each prompt's record has: a schema may be long, but a record must not be."""
MAX_ATTACHMENTS = 100
"""Maximum number of images and files in one message."""
URL_MAX_CHARS = 8192
NAME_MAX_CHARS = 255
ONE_SPEAKER = re.compile(r"[^\s<|\\/>]{1,64}")
"""A name of a speaker as OpenAI takes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A request for a completion. `history` ends with the assistant's last message; `new` follows it: outputs of the
    tools that it called, the user's message, or both.

    `new` is empty if the model shall go on with its own last message. That, and an answer to nothing but instructions,
    is no turn of a conversation, so `store` is False.
    """

    model: str
    new: tuple[PromptMessage, ...]
    history: tuple[PromptMessage, ...] = ()
    instructions: str = ""
    """The messages of roles system and developer, from any position."""
    stream: bool = False
    include_usage: bool = False
    store: bool = True
    conversation: str = ""
    """The name by which the client knows the conversation; "" if the body has none."""
    max_tokens: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters passed to the model unchanged, by their names in Chat Completions."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that the model may call."""

    @property
    def question(self) -> str:
        """The user's message; "" if the request only has outputs of tools."""
        return self.new[-1].content if self.new[-1].role == "user" else ""

    @property
    def outputs(self) -> tuple[PromptMessage, ...]:
        """Outputs of the tools that were called last."""
        return tuple(one for one in self.new if one.role == "tool")


# Messages

Text = Annotated[str, BeforeValidator(lambda value: clean(value) if isinstance(value, str) else value)]
"""A text as it can be stored: no NUL, no lone surrogate."""
Id = Annotated[Text, MinLen(1), MaxLen(MAX_NAME_CHARS)]


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Size limits of a request."""

    message_chars: int
    attachment_bytes: int
    """For one image or file."""


class Wire(BaseModel):
    """What a client sends. A number is not read from a text, nor a text from a number."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, hide_input_in_errors=True)


class Typed(Wire):
    """An object whose `type` names the field that it must have."""

    type: str

    @model_validator(mode="after")
    def _has_the_field_of_its_type(self) -> Typed:
        if self.type in type(self).model_fields and getattr(self, self.type) is None:
            raise invalid_field("it is missing", "missing_required_parameter", at=self.type)
        return self


def _image(url: str, info: ValidationInfo[RequestLimits]) -> Attachment:
    detail = info.data.get("detail") or ""
    if url[:8].lower().startswith(("https://", "http://")):
        url = clean(url)
        if len(url) > URL_MAX_CHARS or not url.isprintable():
            raise invalid_field(f"a link has at most {URL_MAX_CHARS} printable characters")
        return Attachment("image", url=url, detail=detail)
    media_type, data = _bytes(url, info)
    image = image_of(data, media_type, detail)
    if image is None:
        formats = ", ".join(IMAGE_TYPES.values())
        raise invalid_field(f"an image in one of the formats {formats} is expected", "invalid_image_format")
    return image


def _file(url: str, info: ValidationInfo[RequestLimits]) -> Attachment:
    name = "".join(one for one in (info.data.get("filename") or "") if one.isprintable())
    media_type, data = _bytes(url, info)
    return file_of(data, media_type, name.strip()[:NAME_MAX_CHARS])


def _bytes(url: str, info: ValidationInfo[RequestLimits]) -> tuple[str, bytes]:
    """Return the media type and the bytes of a data URL."""
    found, limit = read_data_url(url), info.context.attachment_bytes
    if found is None or not found[1]:
        raise invalid_field("a data URL with base64 is expected, such as 'data:image/png;base64,…'")
    if len(found[1]) > limit:
        raise invalid_field(f"at most {limit:,} bytes are taken", "string_above_max_length")
    return found


class Image(Wire):
    detail: Literal["auto", "low", "high", ""] | None = None
    url: Annotated[str, AfterValidator(_image)]


class File(Wire):
    file_id: Annotated[None, BeforeValidator(lambda value: value or None)] = None
    filename: Text | None = None
    file_data: Annotated[str, AfterValidator(_file)]


class Part(Typed):
    type: Literal["text", "refusal", "image_url", "file"]
    text: Text | None = None
    refusal: Text | None = None
    image_url: Annotated[Image, AfterValidator(lambda image: image.url)] | None = None
    file: Annotated[File, AfterValidator(lambda file: file.file_data)] | None = None


THOUGHTS = ("thinking", "redacted_thinking", "reasoning", "reasoning_text", "thought")
"""Types of parts in which answers have the model's thoughts, which it need not read again."""


def _parts(value: object, parts: ValidatorFunctionWrapHandler) -> list[str | Attachment]:
    if isinstance(value, str):
        return [clean(value)]
    if not isinstance(value, list):
        raise invalid_field("a string or a list of parts is expected", "invalid_type")
    said = [part for part in value if not (isinstance(part, dict) and part.get("type") in THOUGHTS)]
    return [getattr(part, part.type) for part in parts(said)]


class FunctionOfCall(Wire):
    name: Id
    arguments: Text


class CustomToolOfCall(Wire):
    name: Id
    input: Text


class Call(Typed):
    type: Literal["function", "custom"] = "function"
    id: Id = ""
    function: FunctionOfCall | None = None
    custom: CustomToolOfCall | None = None
    extra_content: object = None

    def read(self) -> ToolCall:
        extra = extra_in({"extra_content": self.extra_content})
        if self.custom is not None and self.type == "custom":
            return ToolCall(self.id, self.custom.name, self.custom.input, is_custom=True, extra=extra)
        assert self.function is not None
        return ToolCall(self.id, self.function.name, self.function.arguments, extra=extra)


class WireMessage(Wire):
    """A message of any role. Other fields are left out: SDKs and gateways add them to answers, and clients send them
    back, such as `reasoning_details`, `cache_control`, `parsed` or `timestamp`.
    """

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[list[Part], Field(fail_fast=True), WrapValidator(_parts)] | None = None
    refusal: object = None
    name: object = None
    tool_calls: Annotated[list[Call], Field(fail_fast=True), MaxLen(MAX_CALLS)] | None = None
    tool_call_id: Id | None = None
    function_call: object = None
    audio: object = None


def _read(message: WireMessage, info: ValidationInfo[RequestLimits]) -> PromptMessage | str:
    """Return the message; a text for instructions. Raises if it is too long, or has a field that its role lacks."""
    role, parts = message.role, cast("list[str | Attachment] | None", message.content)
    if parts is None:
        if role not in ("assistant", "tool"):
            raise invalid_field("a string or a list of parts is expected", "invalid_type", at="content")
        parts = [clean(message.refusal) if isinstance(message.refusal, str) else ""]
    if role in ("assistant", "tool"):  # models take no images there: only the mark is sent
        parts = [one if isinstance(one, str) else one.mark for one in parts]
    name = clean(message.name) if isinstance(message.name, str) and role != "tool" else ""
    parsed = PromptMessage(
        "user" if role == "system" or role == "developer" else role,
        "\n\n".join(one if isinstance(one, str) else one.mark for one in parts),
        tuple(call.read() for call in message.tool_calls or ()),
        message.tool_call_id or "",
        tuple(one for one in parts if isinstance(one, Attachment)),
        name if ONE_SPEAKER.fullmatch(name) else "",
    )
    _check(message, parsed, info.context.message_chars)
    return parsed.content if role == "system" or role == "developer" else parsed


def _check(message: WireMessage, parsed: PromptMessage, max_chars: int) -> None:
    if parsed.calls and message.role != "assistant":
        raise invalid_field("only the assistant calls tools", "unsupported_parameter", at="tool_calls")
    if (message.tool_call_id is not None) != (message.role == "tool"):
        raise invalid_field("a tool's message, and no other, has the id of a call", at="tool_call_id")
    for at in ("function_call", "audio"):
        if getattr(message, at):
            raise invalid_field("it is not supported here", "unsupported_parameter", at=at)
    if parsed.attachments and message.role != "user":
        raise invalid_field("images and files can only be sent in messages of the user", at="content")
    if len(parsed.attachments) > MAX_ATTACHMENTS:
        why = f"at most {MAX_ATTACHMENTS} images and files are taken with one message"
        raise invalid_field(why, "array_above_max_length", at="content")
    if len({call.id for call in parsed.calls}) < len(parsed.calls):
        raise invalid_field("two calls have the same id", at="tool_calls")
    length = len(parsed.content) + sum(len(call.arguments) for call in parsed.calls)
    if length > max_chars:
        why = f"it has {length} characters, and at most {max_chars} are taken"
        raise invalid_field(why, "string_above_max_length", at="content")


ReadMessage = Annotated[WireMessage, AfterValidator(_read)]
"""A message that is converted immediately, so that a long history is in memory only once."""


# Parameters


class StreamOptions(Wire):
    model_config = ConfigDict(extra="forbid")

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class NamedSchema(Wire):
    name: str


class Format(Typed):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


class Definition(Wire):
    name: Annotated[str, Field(pattern=TOOL_NAME)]
    parameters: dict[str, Any] | None = None
    format: dict[str, Any] | None = None


class WireTool(Typed):
    type: Literal["function", "custom"]
    function: Definition | None = None
    custom: Definition | None = None


Stops = BeforeValidator(lambda value: value if isinstance(value, list) else [value])
"""One text, or a list of some."""
Name = BeforeValidator(lambda value: value.get("id") if isinstance(value, dict) else value)
"""A name, given as a string or as an object with an `id`, as in the Responses API."""


class PassedOn(Wire):
    """Parameters that are passed to the model as they are."""

    temperature: Annotated[float, Ge(0), Le(2)] | None = None
    top_p: Annotated[float, Ge(0), Le(1)] | None = None
    presence_penalty: Annotated[float, Ge(-2), Le(2)] | None = None
    frequency_penalty: Annotated[float, Ge(-2), Le(2)] | None = None
    seed: int | None = None
    stop: Annotated[list[Annotated[str, MinLen(1)]], MaxLen(4), Stops] | None = None
    logit_bias: dict[str, Any] | None = None
    response_format: Format | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    tool_choice: object = None
    parallel_tool_calls: bool | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None


class Body(PassedOn):
    """All that a request may have."""

    model_config = ConfigDict(extra="forbid")

    messages: Annotated[list[ReadMessage], MinLen(1), MaxLen(MAX_MESSAGES), Field(fail_fast=True)]
    model: str
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    store: bool = True
    metadata: Annotated[dict[Annotated[Text, MaxLen(64)], Annotated[Text, MaxLen(512)]], MaxLen(16)] = {}
    conversation: Annotated[str, Name] = ""
    max_tokens: Annotated[int, Ge(1), Le(MAX_TOKENS)] | None = None
    max_completion_tokens: Annotated[int, Ge(1), Le(MAX_TOKENS)] | None = None
    tools: Annotated[list[WireTool], MaxLen(MAX_TOOLS), Field(fail_fast=True)] = []


WITHOUT_EFFECT: Final[Mapping[str, object]] = {
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
"""Unsupported parameters, each with the value that has no effect and is thus accepted."""


def read_request(
    body: object, limits: RequestLimits, takes: Callable[[object, str], bool] = lambda model, name: False
) -> ChatRequest:
    """Check the parsed `body`. Raises `RequestError`. `takes`: whether a model takes a parameter of another name."""
    if not isinstance(body, dict):
        raise RequestError("The body must be a JSON object.", param=None)
    given = {name: value for name, value in body.items() if value is not None}
    for name, neutral in WITHOUT_EFFECT.items():
        value = given.pop(name, neutral)
        if type(value) is not type(neutral) or value != neutral:
            raise unsupported(name)
    if given.get("stop") in ("", [], [""]):
        del given["stop"]
    extra = [name for name in given if name not in Body.model_fields and takes(given.get("model"), name)]
    parameters = {name: given.pop(name) for name in extra}
    try:
        checked = Body.model_validate(given, context=limits)
    except ValidationError as error:
        raise validation_error(error, Body.model_fields) from None
    tools = tuple(given.get("tools", ()))
    _check_tools(tools, given.get("tool_choice"))
    of_tools = {"tool_choice", "parallel_tool_calls"}
    parameters |= {
        name: given[name] for name in PassedOn.model_fields if name in given and (tools or name not in of_tools)
    }
    require_storable(parameters, "parameters", param=None, max_bytes=MAX_JSON_BYTES)
    messages, instructions = _split(checked.messages, limits)
    is_turn = bool(messages) and messages[-1].role != "assistant"
    if not messages:  # only system messages: they are the question, as no model answers instructions alone
        messages, instructions = (PromptMessage("user", instructions),), ""
    last = max((at for at, one in enumerate(messages) if one.role == "assistant"), default=-1)
    named = (checked.metadata.get(name, "") for name in ("conversation_id", "session_id"))
    longest = (checked.max_tokens, checked.max_completion_tokens)
    return ChatRequest(
        model=checked.model,
        new=messages[last + 1 :],
        history=messages[: last + 1],
        instructions=instructions,
        tools=tools,
        stream=checked.stream,
        include_usage=bool(checked.stream_options.include_usage),
        store=checked.store and is_turn,
        conversation=checked.conversation or next(filter(None, named), ""),
        max_tokens=min((limit for limit in longest if limit is not None), default=None),
        parameters=parameters,
    )


def _split(messages: Sequence[object], limits: RequestLimits) -> tuple[tuple[PromptMessage, ...], str]:
    """Return what each side said, and the instructions, from any position."""
    instructions = "\n\n".join(one for one in messages if isinstance(one, str))
    spoken = [(at, one) for at, one in enumerate(messages) if isinstance(one, PromptMessage)]
    ordered = in_order(spoken, limits.message_chars)
    if not ordered and not instructions.strip():
        raise RequestError("The messages are empty.", param="messages", code="invalid_value")
    if len(instructions) > MESSAGES_OF_INSTRUCTIONS * limits.message_chars:
        raise RequestError(
            f"The system and developer messages have {len(instructions)} characters together; at most "
            f"{MESSAGES_OF_INSTRUCTIONS * limits.message_chars} are taken.",
            param="messages",
            code="string_above_max_length",
        )
    return ordered, instructions


def _check_tools(tools: Sequence[Mapping[str, Any]], choice: object) -> None:
    """Raise `RequestError` for tools of one name, and for a `tool_choice` that is malformed or names none of them."""
    names = [_tool_name(tool) for tool in tools]
    if len(set(names)) < len(names):
        raise RequestError("Two tools have the same name.", param="tools", code="invalid_value")
    require_storable(tools, "tools", param="tools", max_bytes=MAX_JSON_BYTES)
    if choice in (None, "none", "auto"):
        return
    if not tools:
        why = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        raise RequestError(why, param="tool_choice")
    match choice:
        case "required":
            chosen = []
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required", "tools": [*allowed]}}:
            chosen = [_tool_name(tool) for tool in allowed]
        case _:
            chosen = [_tool_name(choice)]
    if any(name not in names for name in chosen):
        raise RequestError(
            "Invalid 'tool_choice': expected 'none', 'auto', 'required', or an object for a function, a custom tool, "
            "or a list of allowed tools, all of them found in the 'tools' parameter.",
            param="tool_choice",
            code="invalid_value",
        )


def _tool_name(tool: object) -> str | None:
    match tool:
        case {"type": "function", "function": {"name": str(name)}}:
            return name
        case {"type": "custom", "custom": {"name": str(name)}}:
            return name
    return None
