"""The yardstick for one turn: its statements by plain ORM, in the same two transactions.

Every value is given: no decision, counting, rendering or signal. What remains is the cost of Django and the database.
The rows are those of the real turn, as wide and as many.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from chatmemory.database.ids import new_id
from conversations.models import ActiveReply, Chat, Message
from memory.models import ContextRecord, ConversationBrief

COUNTS = ("id", "seq", "role", "status", "superseded_by_id", "token_count", "line")
ROWS = 400


@dataclass(frozen=True, slots=True)
class Given:
    """A turn that was run before: its rows, to be written again."""

    question: Message
    reply: Message
    active: dict[str, Any]
    record: ContextRecord
    read_seqs: tuple[int, ...]
    """Messages whose text the turn reads."""


def sketch_turn(user: User, chat: Chat, given: Given) -> None:
    """Write the turn `given` once more."""
    question = _begin(user, chat, given)
    _finish(chat, question, given)


def _begin(user: User, chat: Chat, given: Given) -> Message:
    with transaction.atomic():
        locked = Chat.objects.select_for_update().filter(pk=chat.pk, owner=user).first()
        assert locked is not None
        ActiveReply.objects.filter(chat=locked).first()
        locked.last_seq += 1
        locked.save(update_fields=["last_seq", "updated_at"])
        question = _copy(given.question)
        question.save_base(raw=True, force_insert=True)  # raw: skips the receiver, whose statements follow below
        brief = ConversationBrief.objects.get(chat=locked)
        unfolded = Message.objects.filter(chat_id=chat.pk, seq__gt=brief.folded_through_seq, seq__lt=question.seq)
        list(unfolded.order_by("-seq").values_list(*COUNTS)[:ROWS])
        list(Message.objects.filter(chat_id=chat.pk, seq__in=given.read_seqs).values_list("seq", "content"))
        lease = timezone.now() + timedelta(seconds=15)
        ActiveReply.objects.create(chat=locked, user_message=question, lease_expires_at=lease, **given.active)
    return question


def _finish(chat: Chat, question: Message, given: Given) -> None:
    reply = _copy(given.reply)
    reply.reply_to = question
    with transaction.atomic():
        ActiveReply.objects.filter(chat_id=chat.pk, message_id=given.active["message_id"]).delete()
        Chat.objects.filter(pk=chat.pk).update(last_seq=reply.seq, updated_at=timezone.now())
        reply.save_base(raw=True, force_insert=True)  # as above
        record = {field.attname: getattr(given.record, field.attname) for field in ContextRecord._meta.concrete_fields}
        ContextRecord.objects.create(**{**record, "reply_id": reply.pk})


def _copy(message: Message) -> Message:
    fields = {field.attname: getattr(message, field.attname) for field in Message._meta.concrete_fields}
    return Message(**{**fields, "id": new_id()})
