"""What a file of conversations may hold, as pydantic models: our own format, OpenAI's messages, and ShareGPT's. Pure.

Our own format, which `export_chat` writes, is OpenAI's with more fields. Of the other formats only what is declared in
`FileMessage` and `FileChat` has a meaning. A missing field and a null field are the same.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import Ge, Le, Lt, MaxLen
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    field_validator,
    model_validator,
)

from chatmemory.llm.attachments import Attachment, file_of, image_of, read_data_url
from chatmemory.llm.protocol import ToolCall
from conversations.interchange.values import ImportedUsage, Status
from memory.pins.section import ImportedPin

FileRole = Literal["user", "assistant", "system", "tool", "tool_call", "tool_output"]
"""Kinds of messages in a file. `tool` is a tool's message whose call cannot be identified."""
ROLES: Mapping[str, FileRole] = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "model", "bot"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "tool_call", "tool_response", "assistant_tool_call"), "tool"),
    **dict.fromkeys(("function", "function_call", "function_response", "observation"), "tool"),
}
"""The meaning of the roles of all formats."""
MAX_PINS = 100_000
"""Maximum number of pins in the file of one chat; no export has more."""
MAX_COST = 10**7
"""Upper bound of a cost in USD, exclusive: what the cost column can hold."""


def _in_utc(time: datetime) -> datetime:
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)


Time = Annotated[datetime, Field(strict=False), AfterValidator(_in_utc)]
"""A time as ISO 8601, in UTC if it names no zone, or as seconds since 1970."""
Count = Annotated[int, Ge(0), Le(2**31 - 1)]
Place = Annotated[int, Ge(1), Le(2**31 - 1)]
"""The number of a message in its chat, from 1."""
Cost = Annotated[
    Decimal,
    Field(strict=False),
    Ge(0),
    Lt(MAX_COST),
    AfterValidator(lambda usd: usd.quantize(Decimal("1E-9"))),
]
NotBoolean = BeforeValidator(lambda value: "?" if isinstance(value, bool) else value)


class FileModel(BaseModel):
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)


class OwnModel(FileModel):
    """A part of our own format: it has no other fields, and a null field counts as missing."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value


class Content(NamedTuple):
    """A message's text, its images and files, and other parts of its content, unchanged."""

    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    others: tuple[object, ...] = ()


def _content(value: object) -> Content | None:
    if value is None or isinstance(value, str):
        return value if value is None else Content(value)
    if not isinstance(value, list) or not all(isinstance(part, str | dict) for part in value):
        raise ValueError("this is neither a string nor a list of parts")
    parts = [_part(part) for part in value]
    return Content(
        "\n".join(
            one.mark if isinstance(one, Attachment) else one for one in parts if not isinstance(one, dict)
        ),
        tuple(one for one in parts if isinstance(one, Attachment)),
        tuple(one for one in parts if isinstance(one, dict)),
    )


def _part(part: str | dict[str, Any]) -> str | Attachment | dict[str, Any]:
    """Return the text of a part, or the image or file in it; any other part is returned as it is."""
    if isinstance(part, str):
        return part
    text = part.get("text", part.get("refusal"))
    if isinstance(text, str):
        return text
    kind = part.get("type")
    value = part.get(str(kind))
    if kind not in ("image_url", "file") or not isinstance(value, dict):
        return part
    url = str(value.get("url" if kind == "image_url" else "file_data") or "")
    detail = value.get("detail")
    detail = detail if isinstance(detail, str) else ""
    if kind == "image_url" and url.startswith(("https://", "http://")):
        return Attachment("image", url=url, detail=detail)
    found = read_data_url(url)
    if found is None:
        return part
    if kind == "image_url":
        return image_of(found[1], found[0], detail) or part
    return file_of(found[1], found[0], str(value.get("filename") or ""))


def _role(value: object) -> str:
    if not isinstance(value, str) or value.lower() not in ROLES:
        raise ValueError(f"{json.dumps(value)[:42]} is not a known role")
    return value.lower()


class FileMessage(FileModel):
    """A message of any format."""

    role: Annotated[str, PlainValidator(_role)] = Field(validation_alias=AliasChoices("role", "from"))
    content: Annotated[Content | None, PlainValidator(_content)] = Field(
        default=None, validation_alias=AliasChoices("text", "content", "value")
    )
    created_at: Time | None = None
    completed_at: Time | None = None
    model: Annotated[str, MaxLen(128)] | None = None
    metadata: dict[str, Any] | None = None
    name: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None
    tool_call_id: Any = None

    @model_validator(mode="after")
    def _says_something(self) -> FileMessage:
        has_content = self.content is not None or "content" in self.model_fields_set
        if not (has_content or isinstance(self.refusal, str) or self.tool_calls or self.function_call):
            raise ValueError('"content" is missing')
        return self

    @property
    def completed(self) -> datetime | None:
        return self.completed_at if "completed_at" in self.model_fields_set else self.created_at

    @property
    def text(self) -> str:
        if self.content is not None:
            return self.content.text
        return self.refusal if isinstance(self.refusal, str) else ""

    @property
    def part(self) -> FileRole:
        kind = ROLES[self.role]
        if (
            kind == "assistant"
            and not self.text
            and not self.calls
            and (self.tool_calls or self.function_call)
        ):
            return "tool"
        return kind

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of a reply; none if one of them is incomplete. Our own format has a message for each."""
        found = self.tool_calls if ROLES[self.role] == "assistant" else None
        calls = [_call(one) for one in found] if isinstance(found, list) else []
        whole = tuple(call for call in calls if call is not None)
        return whole if len({call.id for call in whole}) == len(calls) else ()

    @property
    def payload(self) -> Mapping[str, object] | None:
        """As `Message.payload`; for a tool's message, the call that it may be the output of."""
        if self.part != "tool" or not isinstance(self.tool_call_id, str):
            return None
        return {"call_id": self.tool_call_id, "name": str(self.name or "")}

    @property
    def attached(self) -> tuple[Attachment, ...]:
        return self.content.attachments if self.content is not None and self.part == "user" else ()

    @property
    def own_metadata(self) -> dict[str, object]:
        """The message's metadata, together with data of the file that has no field here."""
        if ROLES[self.role] == "tool":
            return self.metadata or {}
        calls = {} if self.calls else {"tool_calls": self.tool_calls, "function_call": self.function_call}
        kept = {"name": self.name, "refusal": self.refusal, **calls}
        found = {name: value for name, value in kept.items() if value}
        if self.content is not None and self.content.others:
            found["content_parts"] = list(self.content.others)
        return {**found, **(self.metadata or {})}


def _call(value: object) -> ToolCall | None:
    if not isinstance(value, dict):
        return None
    is_custom = value.get("type") == "custom"
    tool = value.get("custom" if is_custom else "function")
    tool = tool if isinstance(tool, dict) else {}
    call_id, name, text = value.get("id"), tool.get("name"), tool.get("input" if is_custom else "arguments")
    if not (isinstance(call_id, str) and isinstance(name, str) and isinstance(text, str)):
        return None
    return ToolCall(call_id, name, text, is_custom=is_custom) if call_id and name else None


# Our own format


class CallPayload(OwnModel):
    """What a tool call has, as `Message.payload`."""

    call_id: str
    name: str
    arguments: str
    custom: Literal[True] = True
    extra: str = "{}"

    @field_validator("extra")
    @classmethod
    def _is_an_object(cls, extra: str) -> str:
        with suppress(ValueError, RecursionError):
            if isinstance(json.loads(extra), dict):
                return extra
        raise ValueError("this is not a JSON object")


class OutputPayload(OwnModel):
    call_id: str
    name: str


class CallsPayload(OwnModel):
    calls: int


PAYLOADS: Mapping[str, type[OwnModel]] = {
    "tool_call": CallPayload,
    "tool": OutputPayload,
    "assistant": CallsPayload,
}


class FileUsage(OwnModel):
    model_config = ConfigDict(extra="ignore")

    input_tokens: Count = 0
    cached_tokens: Count = 0
    output_tokens: Count = 0
    cost_usd: Annotated[Cost, NotBoolean] | None = None

    def value(self) -> ImportedUsage:
        return ImportedUsage(**dict(self))


class FileAttachment(OwnModel):
    kind: Literal["image", "file"]
    sha256: str = ""
    url: str = ""
    media_type: str = ""
    name: str = ""
    detail: str = ""
    width: Count = 0
    height: Count = 0
    size: Count = 0
    data: str | None = None

    def value(self) -> Attachment:
        attachment = Attachment(**self.model_dump(exclude={"data"}))
        if self.data is None:
            return attachment
        try:
            data = base64.b64decode(self.data, validate=True)
        except binascii.Error:
            raise ValueError("the base64 of an attachment is broken") from None
        if sha256(data).hexdigest() != attachment.sha256 or len(data) != attachment.size:
            raise ValueError("the bytes of an attachment are not those that it names")
        return replace(attachment, data=data)


Attached = Annotated[FileAttachment, AfterValidator(FileAttachment.value)]


class OwnMessage(FileMessage):
    """A message of our own format."""

    seq: Place | None = None
    reply_to: Place | None = None
    superseded_by: Place | None = None
    status: Status | None = None
    edited_at: Time | None = None
    model_variant: Annotated[str, MaxLen(64)] | None = None
    usage: FileUsage | None = None
    error: dict[str, Any] | None = None
    tool: dict[str, Any] | None = None
    attachments: list[Attached] | None = None

    @field_validator("tool")
    @classmethod
    def _has_what_its_role_has(
        cls, tool: dict[str, Any] | None, info: ValidationInfo
    ) -> dict[str, Any] | None:
        if tool is not None:
            model = PAYLOADS.get(info.data.get("role", ""))
            if model is None:
                raise ValueError("a message of this role has nothing of a tool")
            model.model_validate(tool)
        return tool

    @model_validator(mode="after")
    def _has_a_status_of_its_role(self) -> OwnMessage:
        if self.part == "user" and self.status not in (None, "complete", "deleted"):
            raise ValueError(f"status: a message of user is not {self.status}")
        return self

    @property
    def part(self) -> FileRole:
        if self.role in ("tool", "tool_call") and self.tool is not None:
            return "tool_call" if self.role == "tool_call" else "tool_output"
        return super().part

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return ()

    @property
    def payload(self) -> Mapping[str, object] | None:
        return self.tool if self.tool is not None or self.part != "tool" else super().payload

    @property
    def attached(self) -> tuple[Attachment, ...]:
        return tuple(self.attachments or ()) if self.part == "user" else ()  # type: ignore[arg-type]  # see `Attached`


class FilePin(OwnModel):
    model_config = ConfigDict(extra="ignore")

    text: str
    kind: Literal["instruction", "preference", "identity", "remember", "pinned"] = "pinned"
    by: Literal["user", "staff", "rule", "summarizer"] = "user"
    message: Place | None = None
    seq: Count = 0
    start: Count = 0
    created_at: Time | None = None
    ended_at: Time | None = None
    ended_by: Place | None = None

    @field_validator("text")
    @classmethod
    def _is_not_blank(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("it has no text")
        return text

    def value(self) -> ImportedPin:
        indexes = {name: seq and seq - 1 for name, seq in self if name in ("message", "ended_by")}
        return ImportedPin(**{**dict(self), **indexes})


class FileChat(FileModel):
    """A conversation of any format."""

    messages: list[FileMessage] = Field(validation_alias=AliasChoices("messages", "conversations"))
    title: str | None = None
    instructions: str | None = None
    system: str | None = None
    metadata: dict[str, Any] | None = None
    created_at: Time | None = None
    id: Any = None
    facts: Any = None


class OwnChat(FileChat):
    """A conversation of our own format."""

    messages: list[OwnMessage] = Field(validation_alias=AliasChoices("messages", "conversations"))  # type: ignore[assignment]  # read only
    title_is_automatic: bool | None = None
    policy: str | None = None
    options: dict[str, Any] | None = None
    pins: Annotated[list[FilePin], MaxLen(MAX_PINS)] | None = None
