"""The messages of one entry → a chat's messages: which reply answers which question, and where asides are kept.

Tool calls and their outputs become messages if it is known which belong together. Asides are everything else that
neither side said: other tool messages, and system messages after the first words. They are kept in the metadata of
the reply they led to (the next one before the user speaks again), or of the message before if no reply followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from chatmemory.llm.protocol import ToolCall
from conversations.interchange.messages import FileMessage, FileRole
from conversations.interchange.values import FormatError, ImportedMessage, Role

TOOL_MESSAGES = "tool_messages"
SYSTEM_MESSAGES = "system_messages"


@dataclass
class PlacedMessage:
    """A message of the user, the assistant or a tool, with the asides it keeps."""

    said: FileMessage
    number: int
    """Its place in the file, from 1, asides included."""
    asides: list[FileMessage] = field(default_factory=list)


@dataclass
class Assembled:
    """The result of assembling the messages of an entry."""

    instructions: str
    messages: tuple[ImportedMessage, ...]
    asides: Mapping[str, object]
    """The asides of a chat that has no messages; otherwise empty."""


def assemble(messages: Sequence[FileMessage]) -> Assembled:
    """Assemble the messages of an entry. Raises `FormatError` for a link to a message that does not exist."""
    leading = _leading_system(messages)
    spoken, asides = _settle_asides(messages[leading:], leading)
    instructions = "\n\n".join(said.content for said in messages[:leading])
    return Assembled(instructions, _linked(spoken), _as_metadata({}, asides))


def _leading_system(messages: Sequence[FileMessage]) -> int:
    return next((index for index, said in enumerate(messages) if said.part != "system"), len(messages))


def _settle_asides(
    messages: Sequence[FileMessage], before: int
) -> tuple[list[PlacedMessage], list[FileMessage]]:
    spoken: list[PlacedMessage] = []
    waiting: list[FileMessage] = []
    called: dict[object, str] = {}
    for number, said in enumerate(messages, start=before + 1):
        called |= {call.id: call.name for call in said.calls}
        if said.part == "tool" and said.payload and said.payload["call_id"] in called:
            said = replace(said, part="tool_output", payload=_named(said.payload, called))
        if said.part in ("system", "tool"):
            waiting.append(said)
            continue
        if said.part == "user" and spoken:
            spoken[-1].asides += waiting
            waiting = []
        spoken.append(PlacedMessage(said, number, waiting))
        waiting = []
    if spoken:
        spoken[-1].asides += waiting
        waiting = []
    return spoken, waiting


def _named(payload: Mapping[str, object], called: dict[object, str]) -> dict[str, object]:
    """Return the payload of an output with the name of the called tool. Each call takes only one output."""
    return {**payload, "name": called.pop(payload["call_id"])}


def _as_metadata(metadata: Mapping[str, object], asides: Sequence[FileMessage]) -> dict[str, object]:
    result = dict(metadata)
    for aside in asides:
        key = TOOL_MESSAGES if aside.part == "tool" else SYSTEM_MESSAGES
        kept = result.get(key, [])
        result[key] = [*(kept if isinstance(kept, list) else [kept]), dict(aside.raw)]
    return result


def _linked(spoken: Sequence[PlacedMessage]) -> tuple[ImportedMessage, ...]:
    indexes = _indexes(spoken)
    messages: list[ImportedMessage] = []
    question: int | None = None
    for one in spoken:
        if one.said.part == "user":
            question = len(messages)
        try:
            messages.append(_message(one, indexes, question))
            messages += [_call_message(one, call) for call in one.said.calls]
        except FormatError as exc:
            raise FormatError(f"message {one.number}: {exc}") from None
    _check_links(messages)
    return tuple(messages)


def _indexes(spoken: Sequence[PlacedMessage]) -> dict[int, int]:
    """Map the number by which a file names a message to its index."""
    indexes: dict[int, int] = {}
    for index, one in enumerate(spoken):
        seq = one.said.places.get("seq") or index + 1
        if seq in indexes:
            raise FormatError(f"message {one.number}: seq {seq} is there twice")
        indexes[seq] = index
    return indexes


ROLES: Mapping[FileRole, Role] = {
    "user": "user",
    "assistant": "assistant",
    "tool_call": "tool_call",
    "tool_output": "tool",
}


def _call_message(one: PlacedMessage, call: ToolCall) -> ImportedMessage:
    return ImportedMessage(
        role="tool_call",
        content=call.text,
        payload=call.payload,
        created_at=one.said.created_at,
        completed_at=one.said.completed_at,
        number=one.number,
    )


def _message(one: PlacedMessage, indexes: Mapping[int, int], question: int | None) -> ImportedMessage:
    said, places = one.said, one.said.places
    own_word = said.part != "assistant" or "reply_to" in places
    reply_to = _index(places, "reply_to", indexes) if own_word else question
    payload: Mapping[str, object] | None = {"calls": len(said.calls)} if said.calls else said.payload
    return ImportedMessage(
        role=ROLES[said.part],
        content=said.content,
        payload=payload,
        attachments=said.attachments,
        status=said.status,
        created_at=said.created_at,
        completed_at=said.completed_at,
        edited_at=said.edited_at,
        model_variant=said.model_variant,
        model=said.model,
        metadata=_as_metadata(said.metadata, one.asides),
        usage=said.usage,
        error=said.error,
        reply_to=reply_to,
        superseded_by=_index(places, "superseded_by", indexes),
        number=one.number,
    )


def _index(places: Mapping[str, int | None], name: str, indexes: Mapping[int, int]) -> int | None:
    seq = places.get(name)
    if seq is None:
        return None
    if seq not in indexes:
        raise FormatError(f"{name} names message {seq}, which is not there")
    return indexes[seq]


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
