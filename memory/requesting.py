"""Asking for a chat's memory to be brought up to date, beyond what is due. Durable: the queue is only told of it."""

from __future__ import annotations

from typing import Literal

from django.contrib.auth.models import User
from django.db import transaction

from conversations.models import Chat
from memory import queueing
from memory.models import ConversationBrief, Requested

Mode = Literal["update", "rebuild"]


def request_resummarize(chat: Chat, mode: Mode, user: User | None = None) -> str:
    """Have everything outside the window folded, or the memory rebuilt from the originals. Returns the task's id."""
    with transaction.atomic():
        brief, _ = ConversationBrief.objects.select_for_update().get_or_create(
            chat=chat, defaults={"policy": chat.policy}
        )
        if brief.requested != Requested.REBUILD:
            brief.requested = Requested(mode)
        brief.next_attempt_at = None
        brief.save(update_fields=["requested", "next_attempt_at", "updated_at"])
        return queueing.enqueue_fold(chat.pk)
