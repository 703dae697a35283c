"""The text of a file → chats as values, in any of the formats of `formats`. Pure: no ORM, no clock, no files.

Tool calls and their outputs become messages if it is known which belong together. Asides are everything else that
neither side said: other tool messages, and system messages after the first words. They are kept in the metadata of
the reply they led to (the next one before the user speaks again), or of the message before if no reply followed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from chatmemory.text.cleaning import clean
from conversations.interchange.formats import FileChat, FileMessage, FileRole, OwnChat, OwnMessage
from conversations.interchange.values import OWN_FORMAT, FormatError, ImportedChat, ImportedMessage, Role
from conversations.titles import automatic_title
from memory.pins.section import ImportedPin

MAX_DEPTH = 100
"""Maximum nesting. Deeper JSON is no conversation, and would cause a RecursionError later."""
TITLE_CHARS = 200
"""Maximum length of a title in storage; a longer one is cut."""
TOOL_MESSAGES = "tool_messages"
SYSTEM_MESSAGES = "system_messages"


def read_chats(text: str) -> list[ImportedChat]:
    """Read all conversations of a file. Raises `FormatError` naming the conversation and message that are wrong.

    A message over the server's length limit is kept: that limit is for requests. Times are those of the file, None
    where it has none.
    """
    chats: list[ImportedChat] = []
    for value, line in _entries(text):
        several = value.get("chats") if isinstance(value, dict) else None
        for one in several if isinstance(several, list) else [value]:
            place = f"conversation {len(chats) + 1}" + (f" (line {line})" if line else "")
            try:
                chats.append(_chat(one))
            except FormatError as exc:
                raise FormatError(f"{place}: {exc}") from None
            except ValidationError as exc:
                raise FormatError(f"{place}: {_sentence(exc)}") from None
    return chats


# Text → JSON


def _entries(text: str) -> Iterator[tuple[object, int | None]]:
    """Yield a file's one JSON value, the items of its list, or its JSON lines, each of these with its number."""
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise FormatError("the file is empty")
    try:
        whole = _parse(text)
    except FormatError:
        if not _is_lines(text):
            raise
        yield from _lines(text)
        return
    yield from ((item, None) for item in (whole if isinstance(whole, list) else [whole]))


def _is_lines(text: str) -> bool:
    first, _, rest = text.strip().partition("\n")
    try:
        return bool(rest) and isinstance(_parse(first), dict)
    except FormatError:
        return False


def _lines(text: str) -> Iterator[tuple[object, int]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield _parse(line), number
            except FormatError as exc:
                raise FormatError(f"line {number}: {exc}") from None


def _parse(text: str) -> object:
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as exc:
        raise FormatError(f"not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}") from None
    except RecursionError:
        raise FormatError("nested too deeply") from None
    except FormatError:
        raise
    except ValueError:  # an integer of thousands of digits
        raise FormatError("a number is too large") from None
    return _cleaned(value, 0)


def _refuse(constant: str) -> object:
    raise FormatError(f"{constant} is not a JSON value")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise FormatError("a number is too large")
    return number


def _cleaned(value: object, depth: int) -> object:
    """Return a JSON value as storage can hold it, with all its texts cleaned."""
    if depth > MAX_DEPTH:
        raise FormatError("nested too deeply")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {clean(key): _cleaned(item, depth + 1) for key, item in value.items()}
    return value


# JSON → chats


def _chat(value: object) -> ImportedChat:
    if not isinstance(value, dict):
        raise FormatError("it is not an object")
    name = value.get("format")
    if isinstance(name, str) and name.startswith("chatmemory/") and name != OWN_FORMAT:
        raise FormatError(f"it is written in {name[:40]}; this server reads {OWN_FORMAT}")
    own = OwnChat.model_validate(value) if name == OWN_FORMAT else None
    chat: FileChat = own or FileChat.model_validate(value)
    raws = value["messages" if "messages" in value else "conversations"]
    leading, messages, asides = _assembled(chat.messages, raws)
    title = (chat.title or "")[:TITLE_CHARS]
    made = ""
    if not (own or title.strip()):  # as for a chat begun here
        made = automatic_title(next((one.content for one in messages if one.role == "user"), ""))
    source = {"source_id": chat.id} if not own and isinstance(chat.id, str | int) else {}
    return ImportedChat(
        title=made or title,
        title_is_automatic=bool(made) or bool(own and own.title_is_automatic),
        instructions="\n\n".join(filter(None, (chat.instructions, chat.system, leading))),
        metadata={**asides, **source, **(chat.metadata or {})},
        policy=(own.policy or None) if own else None,
        options=(own.options or {}) if own else {},
        created_at=chat.created_at,
        messages=messages,
        pins=_pins(own, len(messages)) if own else None,
        facts=tuple(chat.facts) if isinstance(chat.facts, list) else (),
    )


def _pins(chat: OwnChat, messages: int) -> tuple[ImportedPin, ...] | None:
    if chat.pins is None:
        return None
    for number, pin in enumerate(chat.pins, start=1):
        if max(pin.message or 0, pin.ended_by or 0) > messages:
            raise FormatError(f"pin {number}: it names a message that the chat does not have")
    return tuple(pin.value() for pin in chat.pins)


def _sentence(error: ValidationError) -> str:
    """Return the first of the things that are wrong, and where."""
    first = error.errors(include_url=False, include_input=False)[0]
    loc = [str(one + 1) if isinstance(one, int) else one for one in first["loc"]]
    if len(loc) > 1 and loc[0] in ("messages", "conversations", "pins"):
        loc = [f"{'pin' if loc[0] == 'pins' else 'message'} {loc[1]}", *loc[2:]]
    message = "it is missing" if first["type"] == "missing" else first["msg"].removeprefix("Value error, ")
    return ": ".join([*loc, message.replace("Input should", "it should")])


# The messages of a chat


@dataclass
class PlacedMessage:
    """A message of the user, the assistant or a tool, with the asides it keeps."""

    said: FileMessage
    part: FileRole
    payload: Mapping[str, object] | None
    number: int
    """Its place in the file, from 1, asides included."""
    asides: list[tuple[FileRole, object]] = field(default_factory=list)


ROLES: Mapping[FileRole, Role] = {
    "user": "user",
    "assistant": "assistant",
    "tool_call": "tool_call",
    "tool_output": "tool",
}


def _assembled(
    messages: Sequence[FileMessage], raws: Sequence[object]
) -> tuple[str, tuple[ImportedMessage, ...], dict[str, object]]:
    """Return the instructions, the messages, and the asides of a chat that has no messages."""
    spoken: list[PlacedMessage] = []
    leading: list[str] = []
    waiting: list[tuple[FileRole, object]] = []
    called: dict[object, str] = {}
    for number, (said, raw) in enumerate(zip(messages, raws, strict=True), start=1):
        part, payload = said.part, said.payload
        if part == "system" and len(leading) == number - 1:
            leading.append(said.text)
            continue
        called |= {call.id: call.name for call in said.calls}
        if part == "tool" and payload and payload["call_id"] in called:  # each call takes only one output
            part, payload = "tool_output", {**payload, "name": called.pop(payload["call_id"])}
        if part in ("system", "tool"):
            waiting.append((part, raw))
            continue
        if part == "user" and spoken:
            spoken[-1].asides += waiting
            waiting = []
        spoken.append(PlacedMessage(said, part, payload, number, waiting))
        waiting = []
    if spoken:
        spoken[-1].asides += waiting
        waiting = []
    return "\n\n".join(leading), _linked(spoken), _with_asides({}, waiting)


def _with_asides(
    metadata: Mapping[str, object], asides: Sequence[tuple[FileRole, object]]
) -> dict[str, object]:
    result = dict(metadata)
    for part, raw in asides:
        key = TOOL_MESSAGES if part == "tool" else SYSTEM_MESSAGES
        kept = result.get(key, [])
        result[key] = [*(kept if isinstance(kept, list) else [kept]), raw]
    return result


def _linked(spoken: Sequence[PlacedMessage]) -> tuple[ImportedMessage, ...]:
    """Return the messages, with the calls that they make, each with the message that it answers."""
    indexes = _indexes(spoken)
    messages: list[ImportedMessage] = []
    question: int | None = None
    for one in spoken:
        question = len(messages) if one.part == "user" else question
        try:
            messages.append(_message(one, indexes, question))
        except FormatError as exc:
            raise FormatError(f"message {one.number}: {exc}") from None
        messages += (
            ImportedMessage(
                "tool_call",
                call.text,
                payload=call.payload,
                created_at=one.said.created_at,
                completed_at=one.said.completed,
                number=one.number,
            )
            for call in one.said.calls
        )
    _check_links(messages)
    return tuple(messages)


def _indexes(spoken: Sequence[PlacedMessage]) -> dict[int, int]:
    """Map the number by which a file names a message to its index."""
    indexes: dict[int, int] = {}
    for index, one in enumerate(spoken):
        seq = (one.said.seq if isinstance(one.said, OwnMessage) else None) or index + 1
        if seq in indexes:
            raise FormatError(f"message {one.number}: seq {seq} is there twice")
        indexes[seq] = index
    return indexes


def _message(one: PlacedMessage, indexes: Mapping[int, int], question: int | None) -> ImportedMessage:
    said = one.said
    own = said if isinstance(said, OwnMessage) else OwnMessage.model_construct()
    names_it = one.part != "assistant" or "reply_to" in own.model_fields_set
    return ImportedMessage(
        role=ROLES[one.part],
        content=said.text,
        payload={"calls": len(said.calls)} if said.calls else one.payload,
        attachments=said.attached,
        status=own.status or "complete",
        created_at=said.created_at,
        completed_at=said.completed,
        edited_at=own.edited_at,
        model_variant=own.model_variant or "",
        model=said.model or "",
        metadata=_with_asides(said.own_metadata, one.asides),
        usage=None if own.usage is None else own.usage.value(),
        error=own.error,
        reply_to=_index(own, "reply_to", indexes) if names_it else question,
        superseded_by=_index(own, "superseded_by", indexes),
        number=one.number,
    )


def _index(own: OwnMessage, name: str, indexes: Mapping[int, int]) -> int | None:
    seq = getattr(own, name)
    if seq is not None and seq not in indexes:
        raise FormatError(f"{name} names message {seq}, which is not there")
    return None if seq is None else indexes[seq]


def _check_links(messages: Sequence[ImportedMessage]) -> None:
    """Check that replies answer earlier user messages, and that messages are superseded only by other replies."""
    for index, message in enumerate(messages):
        answers, heir = message.reply_to, message.superseded_by
        good_answer = answers is None or (answers < index and messages[answers].role == "user")
        good_heir = heir is None or (heir != index and messages[heir].role == "assistant")
        if message.role == "user" and (answers, heir) != (None, None):
            raise FormatError(f"message {message.number}: a user message replies to nothing")
        if message.role not in ("user", "assistant") and answers is not None:
            raise FormatError(f"message {message.number}: a message of a tool replies to nothing")
        if not good_answer or not good_heir:
            name = "superseded_by" if good_answer else "reply_to"
            raise FormatError(f"message {message.number}: {name} names a message that cannot be meant")
