"""Conversations as files: text → chats as values, and back. Each step is a module of `conversations.interchange`.

Pure: no ORM, no clock, no files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conversations.interchange.assemble import assemble
from conversations.interchange.dialects import CHATS, Dialect, FormatName, dialect_of
from conversations.interchange.documents import Entry, entries
from conversations.interchange.fields import flag_field, object_field, text_field, time_field
from conversations.interchange.messages import FileMessage, read_message
from conversations.interchange.pins import read_pins
from conversations.interchange.values import (
    OWN_FORMAT,
    FormatError,
    ImportedChat,
    ImportedMessage,
    ImportedUsage,
)
from conversations.interchange.write import export_chat_json, export_chat_text
from conversations.titles import automatic_title

__all__ = [
    "FormatError",
    "ImportedChat",
    "ImportedMessage",
    "ImportedUsage",
    "export_chat_json",
    "export_chat_text",
    "read_chats",
]

TITLE_LENGTH = 200
"""Maximum length of a title in storage; a longer one is cut."""


def read_chats(text: str, format_name: FormatName = "auto") -> list[ImportedChat]:
    """Read all conversations of a file. Raises `FormatError` naming the conversation and message that are wrong.

    A message over the server's length limit is kept: that limit is for requests. Times are those of the file, None
    where it has none.
    """
    chats: list[ImportedChat] = []
    for entry in entries(text):
        for value, dialect in _conversations(entry, format_name):
            place = f"conversation {len(chats) + 1}" + (f" (line {entry.line})" if entry.line else "")
            chats.append(_chat_at(place, value, dialect))
    return chats


def _conversations(entry: Entry, name: FormatName) -> Iterator[tuple[object, Dialect | None]]:
    """Yield the conversations of an entry, each with its dialect; None if that is unknown."""
    value = entry.value
    if name in ("auto", "chats") and isinstance(value, dict) and isinstance(value.get("chats"), list):
        yield from ((chat, CHATS) for chat in value["chats"])
    elif name == "chats":
        yield value, None
    else:
        yield value, dialect_of(value, name)


def _chat_at(place: str, value: object, dialect: Dialect | None) -> ImportedChat:
    if not isinstance(value, dict):
        raise FormatError(f"{place}: it is not an object")
    if dialect is None:
        raise FormatError(f"{place}: it is in none of the formats that were asked for")
    try:
        return _chat(value, dialect)
    except FormatError as exc:
        raise FormatError(f"{place}: {exc}") from None


def _chat(value: dict[str, object], dialect: Dialect) -> ImportedChat:
    own = _is_own(value)
    found = assemble(_messages(value, dialect, own=own))
    instructions = (text_field(value, "instructions"), text_field(value, "system"), found.instructions)
    title = text_field(value, "title")[:TITLE_LENGTH]
    made = "" if own or title.strip() else _made_title(found.messages)
    return ImportedChat(
        title=made or title,
        title_is_automatic=bool(made) or (own and flag_field(value, "title_is_automatic")),
        instructions="\n\n".join(text for text in instructions if text),
        metadata={**found.asides, **_source_id(value, own=own), **(object_field(value, "metadata") or {})},
        policy=text_field(value, "policy") or None if own else None,
        options=(object_field(value, "options") or {}) if own else {},
        created_at=time_field(value, "created_at"),
        messages=found.messages,
        pins=read_pins(value, len(found.messages)) if own else None,
        facts=_facts(value),
    )


def _made_title(messages: Sequence[ImportedMessage]) -> str:
    """Return the title of a chat without one, made from its first question as for a chat begun here."""
    first = next((message.content for message in messages if message.role == "user"), "")
    return automatic_title(first)


def _facts(value: dict[str, object]) -> Sequence[object]:
    found = value.get("facts")
    return tuple(found) if isinstance(found, list) else ()


def _is_own(value: dict[str, object]) -> bool:
    """Whether `export_chat` wrote it. Raises `FormatError` for an unknown version of our format."""
    name = value.get("format")
    if isinstance(name, str) and name.startswith("chatmemory/") and name != OWN_FORMAT:
        raise FormatError(f"it is written in {name[:40]}; this server reads {OWN_FORMAT}")
    return name == OWN_FORMAT


def _source_id(value: dict[str, object], *, own: bool) -> dict[str, object]:
    found = value.get("id")
    return {"source_id": found} if not own and isinstance(found, str | int) else {}


def _messages(value: dict[str, object], dialect: Dialect, *, own: bool) -> list[FileMessage]:
    raws = value.get(dialect.messages)
    if not isinstance(raws, list):
        raise FormatError(f'"{dialect.messages}" is not a list')
    return [_message_at(number, raw, dialect, own=own) for number, raw in enumerate(raws, start=1)]


def _message_at(number: int, raw: object, dialect: Dialect, *, own: bool) -> FileMessage:
    try:
        return read_message(raw, dialect, own=own)
    except FormatError as exc:
        raise FormatError(f"message {number}: {exc}") from None
