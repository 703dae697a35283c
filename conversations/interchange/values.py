"""A conversation in a file as values, the error raised in reading it, and the values as JSON of our own format. Pure.

These values know nothing of rows, ids or users. A message is referred to by its index in the chat, from 0; in a file,
by `seq`, its number from 1. Our own format is a superset of OpenAI's, and imports again to the same values.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

from chatmemory.llm.attachments import Attachment, json_parts
from chatmemory.runtime.escape import plain_json
from memory.pins.section import ImportedPin

Role = Literal["user", "assistant", "tool_call", "tool"]
Status = Literal["complete", "incomplete", "failed", "cancelled", "deleted"]


OWN_FORMAT = "chatmemory/1"
"""The value of `format` in a file that `export_chat` writes."""


class FormatError(ValueError):
    """A file that cannot be read as conversations. The message names the place and what is wrong there."""


@dataclass(frozen=True, slots=True)
class ImportedUsage:
    """Tokens that a reply was billed for, and their cost in USD if the price was known."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_usd: Decimal | None = None


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """One message. Its text is clean: no NUL, no lone surrogate."""

    role: Role
    content: str
    status: Status = "complete"
    created_at: datetime | None = None
    completed_at: datetime | None = None
    edited_at: datetime | None = None
    model_variant: str = ""
    model: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)
    usage: ImportedUsage | None = None
    error: Mapping[str, object] | None = None
    """`code` and `message`."""
    reply_to: int | None = None
    """Index of the user message that this one answers."""
    superseded_by: int | None = None
    """Index of the later reply that replaced this one."""
    payload: Mapping[str, object] | None = None
    """As `Message.payload`, for tool calls, their outputs, and replies that make calls."""
    attachments: Sequence[Attachment] = ()
    """Images and files of a user's message, with their bytes if these are available."""
    number: int = field(default=0, compare=False)
    """Its place among all messages of the file's conversation, from 1, asides included."""


@dataclass(frozen=True, slots=True)
class ImportedChat:
    """One conversation with the fields that apply to all of it."""

    title: str = ""
    title_is_automatic: bool = False
    instructions: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)
    policy: str | None = None
    """Name of a memory policy as in the file, unchecked. None: the server's default."""
    options: Mapping[str, object] = field(default_factory=dict)
    created_at: datetime | None = None
    messages: Sequence[ImportedMessage] = ()
    pins: Sequence[ImportedPin] | None = None
    """None: the file has no field for pins, so they are found in the messages."""
    facts: Sequence[object] = field(default=(), compare=False)
    """Annotated facts of the conversation, as in the file; read by `memory.lab`, never stored."""


def chat_fields(chat: ImportedChat) -> dict[str, object]:
    """Return all of a chat except its messages, as JSON values."""
    return {
        "format": OWN_FORMAT,
        "title": chat.title,
        "title_is_automatic": chat.title_is_automatic,
        "instructions": chat.instructions,
        "policy": chat.policy,
        "options": dict(chat.options),
        "metadata": dict(chat.metadata),
        "created_at": _time(chat.created_at),
        **({} if chat.pins is None else {"pins": [_pin(pin) for pin in chat.pins]}),
    }


def message_fields(message: ImportedMessage, seq: int) -> dict[str, object]:
    """Return one message as JSON values."""
    return {
        "seq": seq,
        "role": message.role,
        "content": message.content,
        **({} if message.payload is None else {"tool": dict(message.payload)}),
        **({"attachments": list(map(_attachment, message.attachments))} if message.attachments else {}),
        "status": message.status,
        "created_at": _time(message.created_at),
        "completed_at": _time(message.completed_at),
        "edited_at": _time(message.edited_at),
        "model_variant": message.model_variant,
        "model": message.model,
        "reply_to": _seq(message.reply_to),
        "superseded_by": _seq(message.superseded_by),
        "usage": _usage(message.usage),
        "error": None if message.error is None else dict(message.error),
        "metadata": dict(message.metadata),
    }


def export_chat_text(chat: ImportedChat, messages: Iterable[ImportedMessage]) -> Iterator[str]:
    """Yield a chat as JSON text in pieces, one line per message. `messages` are read as they are written.

    `chat.messages` is ignored.
    """
    head = json.dumps(chat_fields(chat), ensure_ascii=False, indent=1)
    yield plain_json(head.removesuffix("\n}")) + ',\n "messages": ['
    separator = "\n"
    for seq, message in enumerate(messages, start=1):
        yield separator + "  "
        yield from json_text(message_fields(message, seq))
        separator = ",\n"
    yield "\n ]\n}\n"


def json_text(value: object, default: Callable[[Any], Any] | None = None) -> Iterator[str]:
    """Yield JSON in pieces: images and files are read as they are written, and never in memory whole."""
    for part in json_parts(value, default=default):
        if isinstance(part, Attachment):
            yield from (base64.b64encode(piece).decode("ascii") for piece in part.pieces or ())
        else:
            yield plain_json(part)


def _attachment(attachment: Attachment) -> dict[str, Any]:
    """Return an image or a file with its bytes as base64. Bytes still to be read are the attachment itself."""
    if attachment.pieces is not None:
        return {**attachment.to_json(), "data": attachment}
    if attachment.data is not None:
        return {**attachment.to_json(), "data": base64.b64encode(attachment.data).decode("ascii")}
    return attachment.to_json()


def _pin(pin: ImportedPin) -> dict[str, object]:
    return {
        **asdict(pin),
        "message": _seq(pin.message),
        "created_at": _time(pin.created_at),
        "ended_at": _time(pin.ended_at),
        "ended_by": _seq(pin.ended_by),
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _seq(index: int | None) -> int | None:
    return None if index is None else index + 1


def _usage(usage: ImportedUsage | None) -> dict[str, object] | None:
    if usage is None:
        return None
    return {**asdict(usage), "cost_usd": None if usage.cost_usd is None else float(usage.cost_usd)}
