"""The file formats that can be read: where each keeps a chat's messages, and how it names a message's role and text.

Our own format, which `export_chat` writes, is OpenAI's with more fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FormatName = Literal["auto", "openai", "sharegpt", "chats"]
FORMATS: tuple[FormatName, ...] = ("auto", "openai", "sharegpt", "chats")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The field of an entry that holds its messages, and the fields of a message that hold its role and its text."""

    name: str
    messages: str
    role: str
    text: tuple[str, ...]


OPENAI = Dialect("openai", "messages", "role", ("content", "text"))
SHAREGPT = Dialect("sharegpt", "conversations", "from", ("value",))
CHATS = Dialect("chats", "messages", "role", ("text", "content"))
"""For a file that is one object with a list of `chats`."""


def dialect_of(value: object, name: FormatName) -> Dialect | None:
    """Return the dialect (the named one; with `auto` any) whose messages field the entry has, or None."""
    for dialect in (OPENAI, SHAREGPT):
        if name in ("auto", dialect.name) and isinstance(value, dict) and dialect.messages in value:
            return dialect
    return None
