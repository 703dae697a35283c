"""The formats of files that can be read: where each has a chat's messages, and the names of a message's role and text.

Our own format, which `export_chat` writes, is OpenAI's with more fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FormatName = Literal["auto", "openai", "sharegpt", "chats"]
FORMATS: tuple[FormatName, ...] = ("auto", "openai", "sharegpt", "chats")


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where an entry keeps its messages, and how a message names its role and its text."""

    name: str
    messages: str
    role: str
    text: tuple[str, ...]


OPENAI = Dialect("openai", "messages", "role", ("content", "text"))
SHAREGPT = Dialect("sharegpt", "conversations", "from", ("value",))
CHATS = Dialect("chats", "messages", "role", ("text", "content"))
"""Of a file that is one object with a list of `chats`."""


def dialect_of(value: object, name: FormatName) -> Dialect | None:
    """In which one an entry is: the one asked for, or by the field that has its messages. None: in no such one."""
    for dialect in (OPENAI, SHAREGPT):
        if name in ("auto", dialect.name) and isinstance(value, dict) and dialect.messages in value:
            return dialect
    return None
