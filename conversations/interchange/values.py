"""A conversation of a file as values, and how our own format is read and its JSON written. Pure.

The values know nothing of rows, ids or users. Messages are named by their number in the chat, from 1. Our own format is
a superset of OpenAI's. A null field is the same as a missing one.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, Lt, MaxLen
from pydantic import (
    AfterValidator,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    PlainValidator,
    Strict,
    TypeAdapter,
)

from chatmemory.llm.attachments import Attachment, json_parts
from chatmemory.llm.protocol import PromptMessage
from chatmemory.runtime.escape import plain_json
from memory.pins.section import ImportedPin

OWN_FORMAT = "chatmemory/1"
"""The value of `format` in a file that we write."""
MAX_COST = 10**7
"""Upper bound of a cost in USD, exclusive: what the cost column can hold."""

Role = Literal["user", "assistant", "tool_call", "tool"]
Status = Literal["complete", "incomplete", "failed", "cancelled", "deleted"]


class FormatError(ValueError):
    """A file that cannot be read as conversations. The message names the place and the error."""


_IN_UTC = AfterValidator(lambda time: (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC))
Time = Annotated[datetime, Field(strict=False), _IN_UTC]
"""A time as ISO 8601, in UTC if it names no zone, or as seconds since 1970."""
Count = Annotated[int, Strict(), Ge(0), Le(2**31 - 1)]
Place = Annotated[int, Strict(), Ge(1), Le(2**31 - 1)]
"""The number of a message, from 1."""
Cost = Annotated[
    Decimal,
    Ge(0),
    Lt(MAX_COST),
    AfterValidator(lambda usd: usd.quantize(Decimal("1E-9"))),
]
WithoutNulls = BeforeValidator(
    lambda value: {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value
)


class FilePart(BaseModel):
    """A part of a message in our own format."""

    model_config = ConfigDict(strict=True, extra="forbid")


class CallPayload(FilePart):
    """The payload of a tool call, as `Message.payload`."""

    call_id: str
    name: str
    arguments: str
    custom: Literal[True] = True
    extra: Json[dict[str, Any]] = {}


class OutputPayload(FilePart):
    call_id: str
    name: str


class CallsPayload(FilePart):
    calls: int


PAYLOADS: Mapping[str, type[FilePart]] = {
    "tool_call": CallPayload,
    "tool": OutputPayload,
    "assistant": CallsPayload,
}


class FileAttachment(FilePart):
    """An image or a file, with its bytes as base64 if they were stored."""

    kind: Literal["image", "file"]
    sha256: str = ""
    url: str = ""
    media_type: str = ""
    name: str = ""
    detail: str = ""
    width: Count = 0
    height: Count = 0
    size: Count = 0
    data: Annotated[Base64Bytes | None, Field(strict=False)] = None


def _attachment(value: object) -> Attachment:
    attachment = Attachment(**dict(FileAttachment.model_validate(value)))
    data = attachment.data
    if data is not None and (sha256(data).hexdigest() != attachment.sha256 or len(data) != attachment.size):
        raise ValueError("the bytes of an attachment do not match its hash and size")
    return attachment


@dataclass(frozen=True, slots=True)
class ImportedUsage:
    """Tokens that a reply was billed for, and their cost in USD if the price was known."""

    input_tokens: Count = 0
    cached_tokens: Count = 0
    output_tokens: Count = 0
    cost_usd: Cost | None = None


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """One message. Its text is clean: no NUL, no lone surrogate."""

    role: Role
    content: str
    status: Status = "complete"
    created_at: Time | None = None
    completed_at: Time | None = None
    edited_at: Time | None = None
    muted_at: Time | None = None
    """When it was muted: it is not recalled any more."""
    model_variant: Annotated[str, MaxLen(64)] = ""
    model: Annotated[str, MaxLen(128)] = ""
    metadata: Mapping[str, object] = field(default_factory=dict)
    usage: Annotated[ImportedUsage, WithoutNulls] | None = None
    error: Mapping[str, object] | None = None
    """`code` and `message`."""
    reply_to: Place | None = None
    """Number of the user message that this one answers."""
    superseded_by: Place | None = None
    """Number of the later reply that replaced this one."""
    payload: Annotated[Mapping[str, object] | None, Field(alias="tool")] = None
    """Same JSON as `Message.payload`: of tool calls, their outputs, and replies that make calls."""
    attachments: Sequence[Annotated[Attachment, PlainValidator(_attachment)]] = ()
    """Images and files of a user's message, with their bytes if these are available."""
    number: Annotated[int, Strict(), Ge(1), Field(alias="seq")] = field(default=0, compare=False)
    """Its place among all messages of the file's conversation, from 1, asides included."""


def _checked(message: ImportedMessage) -> ImportedMessage:
    """Check that a message of our own format has what its role has."""
    if message.role == "user" and message.status not in ("complete", "deleted"):
        raise ValueError(f"status: a message of user is not {message.status}")
    if message.payload is not None:
        if message.role not in PAYLOADS:
            raise ValueError("tool: a message of this role has nothing of a tool")
        PAYLOADS[message.role].model_validate(message.payload)
    elif message.role in ("tool_call", "tool") and message.status != "deleted":
        raise ValueError("tool: it is missing")
    return message


OwnMessage = Annotated[ImportedMessage, WithoutNulls, AfterValidator(_checked)]


@dataclass(frozen=True, slots=True)
class ImportedChat:
    """One conversation with the fields that apply to all of it."""

    title: str = ""
    title_is_automatic: Annotated[bool, Strict()] = False
    instructions: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)
    policy: str | None = None
    """Name of a memory policy as in the file, unchecked. None: the server's default."""
    options: Mapping[str, object] = field(default_factory=dict)
    pinned: Annotated[bool, Strict()] = False
    retain_days: Annotated[int, Strict(), Ge(1), Le(36_500)] | None = None
    temporary: Annotated[bool, Strict()] = False
    project: Annotated[str, MaxLen(100)] = ""
    across: Literal["off", "pins", "all"] = "all"
    created_at: Time | None = None
    messages: Sequence[OwnMessage] = ()
    pins: Sequence[Annotated[ImportedPin, WithoutNulls]] | None = None
    """None: the file has no field for pins, so they are found in the messages."""
    facts: Sequence[object] = field(default=(), compare=False)
    """Annotated facts of the conversation, as in the file; read by `memory.lab`, never stored."""
    left_out: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Counts by kind of what was left out of the file's conversation: see `services.KINDS`. Never stored."""


_CHAT: TypeAdapter[ImportedChat] = TypeAdapter(Annotated[ImportedChat, WithoutNulls])


def read_own(value: object) -> ImportedChat:
    """Read a chat of our own format. Messages are numbered anew, because some may have been taken out of the file.

    Raises `FormatError` and pydantic's `ValidationError`.
    """
    chat = _CHAT.validate_python(value)
    places: dict[int, int] = {}
    for number, message in enumerate(chat.messages, start=1):
        if places.setdefault(message.number or number, number) != number:
            raise FormatError(f"message {number}: seq {message.number} is there twice")

    def named(where: str, seq: int | None, role: Role | None = None) -> int | None:
        if seq is None:
            return None
        place = places.get(seq)
        if place is None or role not in (None, chat.messages[place - 1].role):
            raise FormatError(f"{where} names message {seq}, which is not there or cannot be meant")
        return place

    messages: list[ImportedMessage] = []
    for number, one in enumerate(chat.messages, start=1):
        question = named(f"message {number}: reply_to", one.reply_to, "user")
        heir = named(f"message {number}: superseded_by", one.superseded_by, "assistant")
        if question and (one.role != "assistant" or question > number):
            raise FormatError(f"message {number}: reply_to: only replies answer an earlier message")
        if heir and (one.role == "user" or heir == number):
            raise FormatError(f"message {number}: superseded_by: only another reply replaces a reply")
        messages.append(replace(one, number=number, reply_to=question, superseded_by=heir))
    pins = [
        replace(
            pin,
            message=named(f"pin {number}: message", pin.message),
            ended_by=named(f"pin {number}: ended_by", pin.ended_by),
        )
        for number, pin in enumerate(chat.pins or (), start=1)
    ]
    return replace(chat, messages=tuple(messages), pins=None if chat.pins is None else tuple(pins))


def to_imported(spoken: Iterable[tuple[PromptMessage, Mapping[str, Any]]]) -> list[ImportedMessage]:
    """Return what was said, each with further fields, as messages to import.

    A reply names its question, and the output of a tool its tool. A call is a message of its own.
    """
    found: list[ImportedMessage] = []
    tools: dict[str, str] = {}
    question: int | None = None
    for one, fields in spoken:
        payload: dict[str, object] | None = {"calls": len(one.calls)} if one.calls else None
        if one.role == "tool":
            payload = {"call_id": one.call_id, "name": tools.get(one.call_id, "")}
        elif one.role == "user":
            question = len(found) + 1
        reply_to = question if one.role == "assistant" else None
        rest: dict[str, Any] = {**fields, "attachments": one.attachments}
        found.append(ImportedMessage(one.role, one.content, reply_to=reply_to, payload=payload, **rest))
        for call in one.calls:
            tools[call.id] = call.name
            of_call = {**fields, "model": "", "metadata": {}}
            found.append(ImportedMessage("tool_call", call.text, payload=call.payload, **of_call))
    return found


def fields_text(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield the beginning of an object, field by field: a letter of four bytes makes all of its text take four."""
    separator = "{"
    for name, value in fields.items():
        yield f'{separator}"{name}": '
        yield from json_text(value)
        separator = ", "


def list_text(name: str, values: Iterable[object]) -> Iterator[str]:
    """Yield one more field of an object that already has some."""
    yield f',\n "{name}": ['
    separator = "\n  "
    for value in values:
        yield separator
        yield from json_text(value)
        separator = ",\n  "
    yield "]"


def json_text(value: object) -> Iterator[str]:
    """Yield JSON in pieces: images and files are read as they are written, and never in memory whole."""
    for part in json_parts(value, default=json_value):
        if isinstance(part, Attachment):
            yield from (base64.b64encode(piece).decode("ascii") for piece in part.pieces or ())
        else:
            yield plain_json(part)


def json_value(value: Any) -> str | float:
    """Convert values that JSON has no type for: times in UTC, ids and prices."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value)
