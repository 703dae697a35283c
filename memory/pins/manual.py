"""Pins that people make and remove: the owner of a chat, and staff."""

from __future__ import annotations

import logging
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from chatmemory.errors import ChatBusy, Conflict, NotFound
from conversations.lookup import get_chat, get_message
from conversations.models import Chat, Message, Status
from memory.models import MAX_CHARS, MAX_PINS, PEOPLE, ConversationBrief, Pin, PinnedBy, new_brief
from memory.pins.by_rule import recount
from memory.pins.section import clipped

logger = logging.getLogger(__name__)


def pin(
    user: User, chat_id: UUID, *, text: str | None = None, message_id: UUID | None = None
) -> tuple[Pin, bool]:
    """Pin a text, or the text of a message in the user's chat. Return the pin and whether it is new.

    The same text is pinned only once. Raise NotFound; ChatBusy for a reply that is being written; Conflict for a
    deleted message, one without text, or one pin too many.
    """
    with transaction.atomic():
        chat = get_chat(user, chat_id, lock=True)
        message = None if message_id is None else _message(chat, message_id)
        said = clipped(message.content if message else text or "", MAX_CHARS)
        by_people = Pin.objects.filter(chat=chat, by__in=PEOPLE, ended_at__isnull=True)
        known = by_people.filter(message=message, text=said).first()
        if known is not None:
            return known, False
        if by_people.count() >= MAX_PINS:
            raise Conflict(f"This chat has {MAX_PINS} pins. Remove one first.")
        made = Pin.objects.create(
            chat=chat,
            text=said,
            by=PinnedBy.USER,
            pinned_by=user,
            message=message,
            seq=chat.last_seq,
            created_at=timezone.now(),
        )
        ConversationBrief.objects.get_or_create(chat=chat, defaults=new_brief(chat))
        recount(chat.pk)
    logger.info("pin made", extra={"chat": str(chat.pk), "pin": str(made.pk)})
    return made, True


def _message(chat: Chat, message_id: UUID) -> Message:
    """Return a message that can be pinned."""
    found = get_message(chat, message_id)
    if not isinstance(found, Message):
        raise ChatBusy("This reply is still being written.", retry_after=1)
    if found.status == Status.DELETED:
        raise Conflict("This message was deleted and cannot be pinned.")
    if not found.content.strip():
        raise Conflict("This message has no text and cannot be pinned.")
    return found


def unpin(chat: Chat, pin_id: UUID) -> None:
    """Remove a pin from all future prompts. Do nothing if it has ended already. Raise NotFound.

    A pin that is not of a message is deleted. The pin of a message is only ended, so that prompts that contained it
    can still be shown as they were sent.
    """
    with transaction.atomic():
        Chat.objects.select_for_update().filter(pk=chat.pk).first()
        found = Pin.objects.filter(chat=chat, pk=pin_id).first()
        if found is None:
            raise NotFound("This chat has no such pin.")
        if found.message_id is None:
            found.delete()
        elif found.ended_at is None:
            found.ended_at = timezone.now()
            found.save(update_fields=["ended_at"])
        recount(chat.pk)
    logger.info("pin removed", extra={"chat": str(chat.pk), "pin": str(pin_id)})
