"""A conversation in a file as values, and the error raised in reading it.

These values know nothing of rows, ids or users. A message is referred to by its index in the chat, from 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal

from chatmemory.llm.attachments import Attachment
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
