"""Branch a chat: create a new chat that begins with copies of its messages and shares no rows with it.

For clients that continue from an older message with a different text. Memory of the copied messages is copied too:
the branch starts from the newest revision that had not seen a later message.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from chatmemory.database.ids import new_id
from conversations import attachments
from conversations.derived import set_lines
from conversations.interchange.rows import BATCH
from conversations.models import Chat, Message, Role
from memory.changes import chat_branched
from memory.pins.pins import exported_pins, restore_pins
from memory.pins.section import ImportedPin

logger = logging.getLogger(__name__)

COPIED = [
    field.attname
    for field in Message._meta.concrete_fields
    if field.attname not in ("id", "chat_id", "reply_to_id", "superseded_by_id")
]


@dataclass(frozen=True, slots=True)
class PreparedBranch:
    """The rows of a branch, read and copied, ready to be stored."""

    row: Chat
    origin: UUID
    copies: Mapping[UUID, Message]
    """The copied messages, by the ids of their originals."""
    pins: tuple[ImportedPin, ...]

    def store(self) -> Chat:
        """Insert the rows. Call it in a transaction."""
        self.row.save(force_insert=True)
        messages = list(self.copies.values())
        Message.objects.bulk_create(messages, batch_size=BATCH)
        attachments.copy_links(self.copies)
        chat_branched(self.row, self.origin)
        restore_pins(self.row.pk, self.pins, messages)
        logger.info(
            "chat branched",
            extra={"chat": str(self.origin), "branch": str(self.row.pk), "messages": len(messages)},
        )
        return self.row


def prepare_branch(chat: Chat, through_seq: int) -> PreparedBranch:
    """Copy `chat` up to message `through_seq`, including the tool calls that follow if that message makes some.

    The cost is that of the copied messages; nothing is locked or stored.
    """
    rows = list(Message.objects.filter(chat=chat, seq__lte=through_seq).order_by("seq"))
    calls = (rows[-1].payload or {}).get("calls", 0) if rows else 0
    if calls:
        later = Message.objects.filter(chat=chat, seq__gt=through_seq, seq__lte=through_seq + calls)
        rows += later.order_by("seq")
    question = next((row.seq for row in reversed(rows) if row.role == Role.USER), 0)
    row = Chat(
        owner_id=chat.owner_id,
        title=chat.title,
        title_is_automatic=chat.title_is_automatic,
        policy=chat.policy,
        options=chat.options,
        instructions=chat.instructions,
        metadata=chat.metadata,
        last_seq=through_seq + calls,
        open_seq=question if calls else 0,
    )
    copies = {
        one.pk: Message(id=new_id(), chat=row, **{name: getattr(one, name) for name in COPIED})
        for one in rows
    }
    for one in rows:
        copy = copies[one.pk]
        copy.reply_to = copies.get(one.reply_to_id) if one.reply_to_id else None
        copy.superseded_by = copies.get(one.superseded_by_id) if one.superseded_by_id else None
    # The line of a turn that the branch cuts off may be on a later reply.
    set_lines([copy for copy in copies.values() if copy.seq >= question])
    return PreparedBranch(row, chat.pk, copies, exported_pins(chat.pk, row.last_seq))
