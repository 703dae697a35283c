"""Chats as values → rows, for an import, with pins and memory; and rows → JSON of our own format, for an export.

An import is one transaction a chat. Slow work (counting tokens, making lines) is done before it begins, so that other
writers wait only for the inserts. Bulk inserts send no signals, so memory is notified at the end, in the same
transaction. An export reads a chat as it is now, without a reply that is still being written.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Case, When
from django.utils import timezone

from chatmemory.database.rows import in_chunks, json_size
from chatmemory.errors import InvalidRequest
from chatmemory.llm.attachments import Attachment, attachments_in, payload_of
from conversations import attachments
from conversations.accounts.end_users import app_id_of
from conversations.chat_filters import index_metadata
from conversations.derived import derived_columns, set_lines
from conversations.interchange.values import OWN_FORMAT, ImportedChat, ImportedMessage, fields_text, list_text
from conversations.models import MEMORY_COLUMNS, Chat, Message, Role
from conversations.replies.open_turn import OpenTurn
from memory.changes import chat_branched, messages_changed, sharing_changed
from memory.pins.pins import exported_pins, pin_stated, restore_pins, stated_in
from memory.pins.section import ImportedPin
from memory.pins.statements import Statement
from memory.policies import POLICIES

logger = logging.getLogger(__name__)

BATCH = 500
"""Rows per INSERT."""
CHAT_FIELDS = (
    "title title_is_automatic instructions options metadata pinned retain_days temporary project across".split()
)
MESSAGE_FIELDS = "role content status muted_at edited_at model_variant model error metadata".split()
"""Columns that an imported chat and message have, too, and a file, by the same names."""


def check_chat(chat: ImportedChat) -> None:
    """Raise `InvalidRequest` for a chat that this server cannot store as it is."""
    if chat.policy is not None and chat.policy not in POLICIES:
        known = ", ".join(sorted(POLICIES))
        raise InvalidRequest(f"The memory policy {chat.policy[:40]!r} is not known here; there is: {known}.")
    _check_size("The chat's options", chat.options, "METADATA_MAX_BYTES")
    _check_size("The chat's metadata", chat.metadata, "METADATA_MAX_BYTES")
    for seq, message in enumerate(chat.messages, start=1):
        _check_size(f"The metadata of message {seq}", message.metadata, "IMPORT_METADATA_MAX_BYTES")
        _check_size(f"The call in message {seq}", message.payload or {}, "IMPORT_METADATA_MAX_BYTES")


def _check_size(what: str, value: Mapping[str, object], setting: str) -> None:
    limit = getattr(settings, setting)
    if (size := json_size(value)) > limit:
        raise InvalidRequest(f"{what} has {size} bytes as JSON; the limit is {limit} ({setting}).")


@dataclass(frozen=True, slots=True)
class PreparedChat:
    """The rows of a chat, ready to be stored: all slow work is done."""

    row: Chat
    created_at: datetime | None
    messages: list[Message]
    pins: Sequence[ImportedPin] | None
    stated: Sequence[tuple[Message, Sequence[Statement]]]
    attached: Sequence[tuple[Message, Sequence[Attachment]]]
    """Messages with images or files."""
    origin: UUID | None = None
    """The chat that this one is a branch of: it starts with the memory of the messages that they share."""

    @property
    def tokens(self) -> int:
        """Token count of all messages."""
        return sum(message.token_count for message in self.messages)

    def store(self) -> Chat:
        """Insert the rows, and have the memory folded if it is due. Call it in a transaction."""
        self.row.save(force_insert=True)
        if self.created_at is not None:
            Chat.objects.filter(pk=self.row.pk, owner=self.row.owner_id).update(created_at=self.created_at)
        if self.row.metadata:
            index_metadata(self.row)
        return self.store_messages()

    def store_messages(self) -> Chat:
        """Insert the messages: all that the chat has, or the last ones of a chat that is locked. As `store`."""
        Message.objects.bulk_create(self.messages, batch_size=BATCH)
        attachments.store(self.row.owner_id, self.attached)
        if self.origin is None:
            messages_changed(self.row.key, from_seq=self.messages[0].seq if self.messages else 1)
        else:
            chat_branched(self.row, self.origin)
        if self.pins is None:
            pin_stated(self.row.key, self.stated)
        else:
            restore_pins(self.row.key, self.pins, self.messages)
        sharing_changed(self.row)
        return self.row


def prepare_turns(
    chat: Chat, messages: Sequence[ImportedMessage], pins: Sequence[ImportedPin] | None = None
) -> PreparedChat:
    """Build the rows of messages that follow the last one of a chat."""
    rows = _message_rows(chat, messages)
    set_lines(rows)
    attached = [(new, one.attachments) for new, one in zip(rows, messages, strict=True) if one.attachments]
    return PreparedChat(chat, None, rows, pins, stated_in(rows) if pins is None else [], attached)


def prepare_chat(owner: User, chat: ImportedChat) -> PreparedChat:
    """Build the rows of a chat. Messages without a time get that of the import. Raises `InvalidRequest`."""
    check_chat(chat)
    row = Chat(
        owner=owner,
        app_id=app_id_of(owner),
        policy=chat.policy or settings.MEMORY_POLICY,
        **{name: getattr(chat, name) for name in CHAT_FIELDS},
    )
    prepared = prepare_turns(row, chat.messages, chat.pins)
    messages, row.last_seq = prepared.messages, len(prepared.messages)
    question = max((one.seq for one in messages if one.role == Role.USER), default=0)
    if question and OpenTurn(messages[question - 1], tuple(messages[question:])).waiting:
        row.open_seq = question
    return replace(prepared, created_at=chat.created_at)


def import_chat(owner: User, chat: ImportedChat) -> Chat:
    """Store a chat with all its messages; its memory is folded in the background if it is due.

    If it raises `InvalidRequest`, nothing was stored.
    """
    prepared = prepare_chat(owner, chat)
    with transaction.atomic():
        row = prepared.store()
    extra = {"chat": str(row.pk), "messages": len(prepared.messages), "tokens": prepared.tokens}
    logger.info("chat imported", extra=extra)
    return row


def _message_rows(chat: Chat, messages: Sequence[ImportedMessage]) -> list[Message]:
    now = timezone.now()
    rows: list[Message] = []
    for seq, message in enumerate(messages, start=chat.last_seq + 1):
        row = Message(
            chat=chat,
            seq=seq,
            payload=payload_of(message.attachments) if message.attachments else message.payload,
            created_at=message.created_at or now,
            completed_at=message.completed_at or (None if message.created_at else now),
            **{name: getattr(message, name) for name in MESSAGE_FIELDS},
            **(asdict(message.usage) if message.usage else {}),
            **derived_columns(message.content, message.role, chat.owner_id),
        )
        rows.append(row)
    for row, message in zip(rows, messages, strict=True):
        row.reply_to = rows[message.reply_to - 1] if message.reply_to else None
        row.superseded_by = rows[message.superseded_by - 1] if message.superseded_by else None
    return rows


# Export


def chat_fields(chat: Chat) -> dict[str, Any]:
    """Return all of a chat except its messages, as our own format has it."""
    return {
        "format": OWN_FORMAT,
        **{name: getattr(chat, name) for name in (*CHAT_FIELDS, "policy", "created_at")},
        "pins": [asdict(pin) for pin in exported_pins(chat.key, chat.last_seq)],
    }


def message_fields(chat: Chat) -> Iterator[dict[str, Any]]:
    """Yield the messages of a chat in order, read as they are consumed; none that came after `chat` was read.

    Where bytes are still to be read, the attachment itself is in it.
    """
    last, names = chat.last_seq, (*MESSAGE_FIELDS, "seq", "created_at", "completed_at", "usage")
    rows = Message.objects.filter(chat=chat, seq__lte=last).order_by("seq").defer(*MEMORY_COLUMNS)
    rows = rows.annotate(
        question=Case(When(reply_to__seq__lte=last, then="reply_to__seq")),
        heir=Case(When(superseded_by__seq__lte=last, then="superseded_by__seq")),
    )
    for row in in_chunks(rows):
        fields = {name: getattr(row, name) for name in names}
        fields |= {"reply_to": row.question, "superseded_by": row.heir}
        if attached := attachments_in(row.payload):
            found = attachments.stored(chat.owner_id, attached)
            with_bytes = (replace(one, pieces=found.get(one.sha256)) for one in attached)
            fields["attachments"] = [
                one.to_json() | ({"data": one} if one.pieces is not None else {}) for one in with_bytes
            ]
        elif row.payload is not None:
            fields["tool"] = row.payload
        yield fields


def export_chat(chat: Chat) -> Iterator[str]:
    """Yield a chat as JSON text in pieces, one line per message, which are read as they are written."""
    yield from fields_text(chat_fields(chat))
    yield from list_text("messages", message_fields(chat))
    yield "\n}\n"
