"""Rows → chats as values, for export. A chat is read as it is now, without a reply that is still being written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import F

from chatmemory.database.chunks import in_chunks
from chatmemory.llm.attachments import attachments_in
from conversations import attachments
from conversations.interchange.read import ImportedChat, ImportedMessage, ImportedUsage
from conversations.models import MEMORY_COLUMNS, Chat, Message
from memory import services as memory

CHUNK = 20
"""Rows read at a time. A message may have a megabyte, so few rows keep the export of a chat of any length small."""


def chat_values(chat: Chat) -> ImportedChat:
    """Return a chat without its messages."""
    return ImportedChat(
        title=chat.title,
        title_is_automatic=chat.title_is_automatic,
        instructions=chat.instructions,
        metadata=chat.metadata,
        policy=chat.policy,
        options=chat.options,
        created_at=chat.created_at,
        pins=memory.exported_pins(chat.pk, chat.last_seq),
    )


def message_values(chat: Chat, from_seq: int = 1) -> Iterator[ImportedMessage]:
    """Yield the messages of a chat in order, read as they are consumed; none that came after `chat` was read."""
    rows = Message.objects.filter(chat=chat, seq__gte=from_seq, seq__lte=chat.last_seq).order_by("seq")
    rows = rows.defer(*MEMORY_COLUMNS).annotate(
        reply_to_seq=F("reply_to__seq"), superseded_by_seq=F("superseded_by__seq")
    )
    for row in in_chunks(rows, CHUNK):
        yield _values(row, chat)


def _values(row: Any, chat: Chat) -> ImportedMessage:
    attached = attachments_in(row.payload)
    return ImportedMessage(
        role=row.role,
        content=row.content,
        payload=None if attached else row.payload,
        attachments=attachments.with_stored_bytes(chat.owner_id, attached) if attached else (),
        status=row.status,
        created_at=row.created_at,
        completed_at=row.completed_at,
        edited_at=row.edited_at,
        model_variant=row.model_variant,
        model=row.model,
        metadata=row.metadata,
        usage=_usage(row),
        error=row.error,
        reply_to=_index(row.reply_to_seq, chat.last_seq),
        superseded_by=_index(row.superseded_by_seq, chat.last_seq),
    )


def _index(seq: int | None, last_seq: int) -> int | None:
    return None if seq is None or seq > last_seq else seq - 1


def _usage(row: Message) -> ImportedUsage | None:
    if row.input_tokens is None:
        return None
    return ImportedUsage(row.input_tokens, row.cached_tokens or 0, row.output_tokens or 0, row.cost_usd)
