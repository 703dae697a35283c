"""What the bodies of Chat Completions and of Responses have in common, and the value that both become. Pure.

No parameter is dropped silently: one that is neither served here nor passed on to the model is refused by name. A null
field counts as absent. An image or a file comes as a data URL, or an image as a link; nothing is fetched here, and each
leaves a mark in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    model_validator,
)

from chatmemory.llm.attachments import IMAGE_TYPES, Attachment, file_of, image_of, read_data_url
from chatmemory.llm.openai.reading import MAX_CALL_ID_CHARS, MAX_NAME_CHARS
from chatmemory.llm.protocol import PromptMessage, ToolCall
from chatmemory.text.cleaning import clean
from conversations.openai_api import errors
from conversations.openai_api.history import Wording, in_order

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A request for a reply, of either API. `history` ends with the assistant's last message; `new` follows it: outputs
    of the tools that it called, the user's message, or both.

    `new` is empty if the model shall go on with its own last message. That, and an answer to nothing but instructions,
    is no turn of a conversation.
    """

    wording: Wording
    model: str
    new: tuple[PromptMessage, ...]
    history: tuple[PromptMessage, ...] = ()
    instructions: str = ""
    """The messages of roles system and developer, from any position."""
    stream: bool = False
    include_usage: bool = False
    store: bool = True
    is_turn: bool = True
    conversation: str = ""
    """The name by which the client knows the conversation; "" if the body has none."""
    max_tokens: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters passed to the model unchanged, by their names in Chat Completions."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that the model may call, in the format of Chat Completions; hosted ones as they came."""
    previous: str | None = None
    """The id of the response that a request of the Responses API continues."""
    shown: Mapping[str, Any] | None = None
    """The fields of the request that its response object repeats; None for a completion."""
    ignored: tuple[str, ...] = ()
    """The names of requested features that have no effect here."""

    @property
    def question(self) -> str:
        """The user's message; "" if the request only has outputs of tools."""
        return self.new[-1].content if self.new[-1].role == "user" else ""

    @property
    def outputs(self) -> tuple[PromptMessage, ...]:
        """Outputs of the tools that were called last."""
        return tuple(one for one in self.new if one.role == "tool")


Cleaned = BeforeValidator(lambda value: clean(value) if isinstance(value, str) else value)
"""Makes a text storable: no NUL, no lone surrogate. Before a limit, it makes errors count items, not characters."""
Text = Annotated[str, Cleaned]
Id = Annotated[str, MinLen(1), MaxLen(MAX_NAME_CHARS), Cleaned]
CallId = Annotated[str, MinLen(1), MaxLen(MAX_CALL_ID_CHARS), Cleaned]
MetadataName = Annotated[str, MaxLen(64), Cleaned]
MetadataValue = Annotated[str, MaxLen(512), Cleaned]


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The server's limits for one request."""

    message_chars: int
    attachment_bytes: int
    """For one image or file."""
    takes: Callable[[object, str], bool] = lambda model, name: False
    """Whether the model that a body names takes a parameter that OpenAI's API does not have."""


class Wire(BaseModel):
    """The base of bodies that clients send. A number is not read from a text, nor a text from a number."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, hide_input_in_errors=True)


class Typed(Wire):
    """An object whose `type` says which fields it must have: the one of the same name, unless `needs` has others."""

    needs: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    type: str

    @property
    def needed(self) -> tuple[str, ...]:
        return self.needs.get(self.type, (self.type,))

    @model_validator(mode="after")
    def _has_the_fields_of_its_type(self) -> Typed:
        for name in self.needed:
            if name in type(self).model_fields and getattr(self, name) is None:
                raise errors.invalid_field("it is missing", "missing_required_parameter", at=name)
        return self


def image(url: str, info: ValidationInfo[RequestLimits]) -> Attachment:
    """Read an image: a link, or a data URL. Its `detail` is the field before it."""
    detail = info.data.get("detail") or ""
    if url[:8].lower().startswith(("https://", "http://")):
        url = clean(url)
        if len(url) > URL_MAX_CHARS or not url.isprintable():
            raise errors.invalid_field(f"a link has at most {URL_MAX_CHARS} printable characters")
        return Attachment("image", url=url, detail=detail)
    found = image_of(_bytes(url, info)[1], detail)
    if found is None:
        formats = ", ".join(IMAGE_TYPES.values())
        raise errors.invalid_field(f"an image in one of the formats {formats} is expected", "invalid_image_format")
    return found


def file(url: str, info: ValidationInfo[RequestLimits]) -> Attachment:
    """Read a file, which is a data URL. Its `filename` is the field before it."""
    name = "".join(one for one in (info.data.get("filename") or "") if one.isprintable())
    media_type, data = _bytes(url, info)
    return file_of(data, media_type, name.strip()[:NAME_MAX_CHARS])


def _bytes(url: str, info: ValidationInfo[RequestLimits]) -> tuple[str, bytes]:
    """Return the media type and the bytes of a data URL."""
    found, limit = read_data_url(url), info.context.attachment_bytes
    if found is None or not found[1]:
        raise errors.invalid_field("a data URL with base64 is expected, such as 'data:image/png;base64,…'")
    if len(found[1]) > limit:
        raise errors.invalid_field(f"at most {limit:,} bytes are taken", "string_above_max_length")
    return found


THOUGHTS = ("thinking", "redacted_thinking", "reasoning", "reasoning_text", "thought")
"""Types of parts in which answers have the model's thoughts, which it need not read again."""


def parts(value: object, validate: ValidatorFunctionWrapHandler) -> list[str | Attachment]:
    """Read the content of a message: a text, or parts, of which each has the field that its type needs."""
    if isinstance(value, str):
        return [clean(value)]
    if not isinstance(value, list):
        raise errors.invalid_field("a string or a list of parts is expected", "invalid_type")
    said = [part for part in value if not (isinstance(part, dict) and part.get("type") in THOUGHTS)]
    return [getattr(part, part.needed[0]) for part in validate(said)]


def message_of(
    role: Literal["system", "developer", "user", "assistant", "tool"],
    said: Sequence[str | Attachment],
    max_chars: int,
    *,
    calls: tuple[ToolCall, ...] = (),
    call_id: str = "",
    name: str = "",
    at: str = "content",
) -> PromptMessage | str:
    """Return a message; a text for instructions. `at`: the field that errors name. Raises for what its role lacks."""
    spoken = role in ("assistant", "tool")  # models take no images there: only the mark is sent
    message = PromptMessage(
        "user" if role == "system" or role == "developer" else role,
        "\n\n".join(one if isinstance(one, str) else one.mark for one in said),
        calls,
        call_id,
        () if spoken else tuple(one for one in said if isinstance(one, Attachment)),
        name,
    )
    if message.attachments and role != "user":
        raise errors.invalid_field("images and files can only be sent in messages of the user", at=at)
    if len(message.attachments) > MAX_ATTACHMENTS:
        why = f"at most {MAX_ATTACHMENTS} images and files are taken with one message"
        raise errors.invalid_field(why, "array_above_max_length", at=at)
    length = len(message.content) + sum(len(call.arguments) for call in calls)
    if length > max_chars:
        why = f"it has {length} characters, and at most {max_chars} are taken"
        raise errors.invalid_field(why, "string_above_max_length", at=at)
    return message.content if role == "system" or role == "developer" else message


# Parameters


class StreamOptions(Wire):
    model_config = ConfigDict(extra="forbid")

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


Name = BeforeValidator(lambda value: value.get("id") if isinstance(value, dict) else value)
"""A name, given as a string or as an object with an `id`, as in the Responses API."""
Limit = Annotated[int, Ge(1), Le(MAX_TOKENS)]


class PassedOn(Wire):
    """Parameters that are passed to the model as they are."""

    temperature: Annotated[float, Ge(0), Le(2)] | None = None
    top_p: Annotated[float, Ge(0), Le(1)] | None = None
    presence_penalty: Annotated[float, Ge(-2), Le(2)] | None = None
    frequency_penalty: Annotated[float, Ge(-2), Le(2)] | None = None
    service_tier: str | None = None
    tool_choice: object = None
    parallel_tool_calls: bool | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None


class Body(PassedOn):
    """The fields that both APIs have."""

    model_config = ConfigDict(extra="forbid")
    wording: ClassVar[Wording]
    passed_on: ClassVar[Collection[str]]
    """The names of the parameters that are passed on as they come."""
    without_effect: ClassVar[Mapping[str, object]]
    """Unsupported parameters, each with the value that has no effect and is thus accepted."""

    model: str
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    store: bool = True
    metadata: Annotated[dict[MetadataName, MetadataValue], MaxLen(16)] = {}
    conversation: Annotated[str, Name] = ""
    _limits: RequestLimits
    _given: Mapping[str, Any]
    """The fields as they came, without nulls."""
    _parameters: Mapping[str, Any]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters to pass on unchanged, including those that only the model knows."""
        return self._parameters

    @classmethod
    def read(cls, body: object, limits: RequestLimits) -> Self:
        """Check a parsed body. Raises `RequestError`."""
        if not isinstance(body, dict):
            raise errors.RequestError("The body must be a JSON object.", param=None)
        given = {name: value for name, value in body.items() if value is not None}
        for name, neutral in cls.without_effect.items():
            value = given.pop(name, neutral)
            if type(value) is not type(neutral) or value != neutral:
                raise errors.unsupported(name)
        extra = [name for name in given if name not in cls.model_fields and limits.takes(given.get("model"), name)]
        parameters = {name: given.pop(name) for name in extra}
        parameters |= {name: given[name] for name in cls.passed_on if name in given}
        try:
            checked = cls.model_validate(given, context=limits)
        except ValidationError as error:
            raise errors.validation_error(error, cls.model_fields) from None
        checked._limits, checked._given, checked._parameters = limits, given, parameters
        return checked

    def _request(
        self,
        messages: Sequence[PromptMessage | str | None],
        *,
        parameters: Mapping[str, Any],
        tools: Sequence[Mapping[str, Any]],
        instructions: str = "",
        **fields: Any,
    ) -> ChatRequest:
        """Return the request for a reply. `messages` are as the client sent them, those with instructions as texts.

        `parameters` and `tools` are in the format of Chat Completions. Raises `RequestError`.
        """
        messages = _with_questions(messages)
        _check_tools(tools, parameters.get("tool_choice"))
        if not tools:
            of_tools = "tool_choice", "parallel_tool_calls"
            parameters = {name: value for name, value in parameters.items() if name not in of_tools}
        errors.require_storable(parameters, "parameters", param=None, max_bytes=MAX_JSON_BYTES)
        told = (one for one in messages if isinstance(one, str))
        instructions = "\n\n".join([*filter(None, [instructions]), *told])
        length, most = len(instructions), MESSAGES_OF_INSTRUCTIONS * self._limits.message_chars
        said = [(at, one) for at, one in enumerate(messages) if isinstance(one, PromptMessage)]
        spoken = in_order(said, self._limits.message_chars, self.wording)
        if not spoken and not instructions.strip():
            raise errors.RequestError("The messages are empty.", param=self.wording.field, code="invalid_value")
        if length > most:
            why = f"The system and developer messages have {length} characters together; at most {most} are taken."
            raise errors.RequestError(why, param=self.wording.field, code="string_above_max_length")
        is_turn = bool(spoken) and spoken[-1].role != "assistant"
        if not spoken:  # only system messages: they are the question, as no model answers instructions alone
            spoken, instructions = (PromptMessage("user", instructions),), ""
        last = max((at for at, one in enumerate(spoken) if one.role == "assistant"), default=-1)
        named = (self.metadata.get(name, "") for name in ("conversation_id", "session_id"))
        return ChatRequest(
            wording=self.wording,
            model=self.model,
            new=spoken[last + 1 :],
            history=spoken[: last + 1],
            instructions=instructions,
            tools=tuple(tools),
            stream=self.stream,
            store=self.store,
            is_turn=is_turn,
            conversation=self.conversation or next(filter(None, named), ""),
            parameters=parameters,
            **fields,
        )


_IN_PLACE_OF_QUESTION = re.compile(r"(?<=a)-+(?=[ac]|\Z)")


def _with_questions(messages: Sequence[PromptMessage | str | None]) -> list[PromptMessage | str | None]:
    """Take instructions between two answers, or after the last one, for messages of the user: some clients send the
    output of commands like this."""
    found = list(messages)
    for place in _IN_PLACE_OF_QUESTION.finditer("".join(map(_kind, messages))):
        for at in range(*place.span()):
            text = messages[at]
            found[at] = PromptMessage("user", text) if isinstance(text, str) and text.strip() else text
    return found


def _kind(message: PromptMessage | str | None) -> str:
    """Return "a" for an answer, "c" for one with calls, "-" for instructions, and other letters for the rest."""
    if not isinstance(message, PromptMessage):
        return "-"
    return "c" if message.calls else message.role[0] if message.content.strip() else " "


def _check_tools(tools: Sequence[Mapping[str, Any]], choice: object) -> None:
    """Raise `RequestError` for tools of one name, and for a `tool_choice` that is malformed or names none of them."""
    names = [name for tool in tools if (name := _tool_name(tool))]
    if len(set(names)) < len(names):
        raise errors.RequestError("Two tools have the same name.", param="tools", code="invalid_value")
    errors.require_storable(tools, "tools", param="tools", max_bytes=MAX_JSON_BYTES)
    if choice in (None, "none", "auto"):
        return
    if not tools:
        why = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        raise errors.RequestError(why, param="tool_choice")
    match choice:
        case "required":
            chosen = []
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required", "tools": [*allowed]}}:
            chosen = [_tool_name(tool) for tool in allowed]
        case _:
            chosen = [_tool_name(choice)]
    if any(name not in names for name in chosen):
        why = "Invalid 'tool_choice': expected 'none', 'auto', 'required', or an object for a function, a custom tool, "
        why += "or a list of allowed tools, all of them found in the 'tools' parameter."
        raise errors.RequestError(why, param="tool_choice", code="invalid_value")


def _tool_name(tool: object) -> str | None:
    match tool:
        case {"type": "function", "function": {"name": str(name)}} | {"type": "custom", "custom": {"name": str(name)}}:
            return name
    return None
