"""The messages of a Chat Completions request as pydantic models, each of which becomes a `HistoryMessage`. Pure.

An image or a file comes as a data URL, or an image as a link; nothing is fetched here. Each leaves a mark in the
text. The limits of a request are the context of the validation.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NamedTuple, cast

from annotated_types import MaxLen, MinLen
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from chatmemory.llm.attachments import IMAGE_TYPES, Attachment, file_of, image_of, read_data_url
from chatmemory.llm.openai.stream import extra_in
from chatmemory.llm.protocol import ToolCall
from chatmemory.text.cleaning import clean
from conversations.openai_api.errors import invalid_field
from conversations.openai_api.history import HistoryMessage, RequestLimits

MAX_CALLS = 128
"""Maximum number of tool calls in one message."""
MAX_ATTACHMENTS = 100
"""Maximum number of images and files in one message."""
ID_CHARS = 256
URL_MAX_CHARS = 8192
NAME_MAX_CHARS = 255
ONE_SPEAKER = re.compile(r"[^\s<|\\/>]{1,64}")
"""A name of a speaker as OpenAI takes it."""

Text = Annotated[str, BeforeValidator(lambda value: clean(value) if isinstance(value, str) else value)]
"""A text as it can be stored: no NUL, no lone surrogate."""
Id = Annotated[Text, MinLen(1), MaxLen(ID_CHARS)]


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


class Image(Wire):
    detail: Literal["auto", "low", "high", ""] | None = None
    url: Any

    @field_validator("url")
    @classmethod
    def _read(cls, url: object, info: ValidationInfo) -> Attachment:
        text, detail = _string(url), info.data.get("detail") or ""
        if text[:8].lower().startswith(("https://", "http://")):
            text = clean(text)
            if len(text) > URL_MAX_CHARS or not text.isprintable():
                raise invalid_field(f"a link has at most {URL_MAX_CHARS} printable characters")
            return Attachment("image", url=text, detail=detail)
        media_type, data = _bytes(text, info)
        image = image_of(data, media_type, detail)
        if image is None:
            formats = ", ".join(IMAGE_TYPES.values())
            raise invalid_field(
                f"an image in one of the formats {formats} is expected", "invalid_image_format"
            )
        return image


class File(Wire):
    file_id: Any = None
    filename: Text | None = None
    file_data: Any = Field(default=None, validate_default=True)

    @field_validator("file_id")
    @classmethod
    def _refuse_id(cls, file_id: object) -> None:
        if file_id:
            why = "files are sent with the message here, as 'file_data'; 'file_id' is not supported"
            raise invalid_field(why, "unsupported_parameter")

    @field_validator("file_data")
    @classmethod
    def _read(cls, url: object, info: ValidationInfo) -> Attachment:
        name = "".join(one for one in (info.data.get("filename") or "") if one.isprintable())
        media_type, data = _bytes(_string(url), info)
        return file_of(data, media_type, name.strip()[:NAME_MAX_CHARS])


class Part(Typed):
    type: Literal["text", "refusal", "image_url", "file"]
    text: Text | None = None
    refusal: Text | None = None
    image_url: Image | None = None
    file: File | None = None

    def read(self) -> str | Attachment:
        if self.image_url is not None and self.type == "image_url":
            return cast(Attachment, self.image_url.url)
        if self.file is not None and self.type == "file":
            return cast(Attachment, self.file.file_data)
        return (self.refusal if self.type == "refusal" else self.text) or ""


class Said(NamedTuple):
    """The content of a message: its text, with a mark for each image and file."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    attached_at: int = 0
    """Index of the first part that is an image or a file."""


def _content(value: object, parts: ValidatorFunctionWrapHandler) -> Said:
    if isinstance(value, str):
        return Said(clean(value))
    if not isinstance(value, list):
        raise invalid_field("a string or a list of parts is expected", "invalid_type")
    read = [part.read() for part in parts(value)]
    attached = {at: one for at, one in enumerate(read) if isinstance(one, Attachment)}
    text = "\n\n".join(one if isinstance(one, str) else one.mark for one in read)
    return Said(text, tuple(attached.values()), next(iter(attached), 0))


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
    extra_content: Any = None

    def read(self) -> ToolCall:
        extra = extra_in({"extra_content": self.extra_content})
        if self.custom is not None and self.type == "custom":
            return ToolCall(self.id, self.custom.name, self.custom.input, is_custom=True, extra=extra)
        assert self.function is not None
        return ToolCall(self.id, self.function.name, self.function.arguments, extra=extra)


class WireMessage(Wire):
    """A message of any role. What an SDK sends back of an answer has all of the answer's fields."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[list[Part], Field(fail_fast=True), WrapValidator(_content)] | None = None
    refusal: Any = None
    annotations: Any = None
    name: Any = None
    tool_calls: Annotated[list[Call], Field(fail_fast=True), MaxLen(MAX_CALLS)] | None = None
    tool_call_id: Id | None = None
    # What gateways add to answers and clients send back: the model need not read it again.
    extra_content: Any = None
    provider_specific_fields: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    thinking_blocks: Any = None

    @model_validator(mode="before")
    @classmethod
    def _without_empty_extras(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: one for name, one in value.items() if one or name in ("role", "content", "tool_call_id")
        }

    def read(self, limits: RequestLimits) -> HistoryMessage | str:
        """Return what is said; a text for instructions. Raises for what is too long, or has what its role may not."""
        said = cast("Said | None", self.content)
        if said is None:
            if self.role != "assistant":
                raise invalid_field("a string or a list of parts is expected", "invalid_type", at="content")
            said = Said(clean(self.refusal) if isinstance(self.refusal, str) else "")
        calls = tuple(call.read() for call in self.tool_calls or ())
        self._check(said, calls, limits.message_chars)
        if self.role in ("system", "developer"):
            return said.text
        if self.role == "tool":
            return HistoryMessage("tool", said.text, call_id=self.tool_call_id or "")
        name = clean(self.name) if isinstance(self.name, str) else ""
        name = name if ONE_SPEAKER.fullmatch(name) else ""
        return HistoryMessage(
            cast('Literal["user", "assistant"]', self.role), said.text, calls, "", said.attachments, name
        )

    def _check(self, said: Said, calls: tuple[ToolCall, ...], max_chars: int) -> None:
        if calls and self.role != "assistant":
            raise invalid_field("only the assistant calls tools", "unsupported_parameter", at="tool_calls")
        if (self.tool_call_id is not None) != (self.role == "tool"):
            raise invalid_field("a tool's message, and no other, has the id of a call", at="tool_call_id")
        if said.attachments and self.role != "user":
            why = "images and files can only be sent in messages of the user"
            raise invalid_field(why, at=f"content.[{said.attached_at}].type")
        if len(said.attachments) > MAX_ATTACHMENTS:
            why = f"at most {MAX_ATTACHMENTS} images and files are taken with one message"
            raise invalid_field(why, "array_above_max_length", at="content")
        if len({call.id for call in calls}) < len(calls):
            raise invalid_field("two calls have the same id", at="tool_calls")
        length = len(said.text) + sum(len(call.arguments) for call in calls)
        if length > max_chars:
            why = f"it has {length} characters, and at most {max_chars} are taken"
            raise invalid_field(why, "string_above_max_length", at="content")


def _read(message: WireMessage, info: ValidationInfo) -> HistoryMessage | str:
    return message.read(_limits(info))


ReadMessage = Annotated[WireMessage, AfterValidator(_read)]
"""A message that becomes what is said at once, so that a long history is in memory only once."""


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise invalid_field("a string is expected", "invalid_type")
    return value


def _bytes(url: str, info: ValidationInfo) -> tuple[str, bytes]:
    """Return the media type and the bytes of a data URL."""
    found, limit = read_data_url(url), _limits(info).attachment_bytes
    if found is None or not found[1]:
        raise invalid_field("a data URL with base64 is expected, such as 'data:image/png;base64,…'")
    if len(found[1]) > limit:
        raise invalid_field(f"at most {limit:,} bytes are taken", "string_above_max_length")
    return found


def _limits(info: ValidationInfo) -> RequestLimits:
    assert isinstance(info.context, RequestLimits)
    return info.context
