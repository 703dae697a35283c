"""Asking for a chat's memory to be brought up to date, beyond what is due. Durable: the queue is only told of it."""

from __future__ import annotations

import logging
from typing import Literal

from django.contrib.auth.models import User
from django.db import transaction

from conversations.models import Chat
from memory import queueing
from memory.chat_limits import new_brief
from memory.models import ConversationBrief, Requested

logger = logging.getLogger(__name__)

Mode = Literal["update", "rebuild"]


def request_resummarize(chat: Chat, mode: Mode, user: User | None = None) -> str:
    """Have everything outside the window folded, or the memory rebuilt from the originals. Returns the task's id.

    `user` is who asked, for the log.
    """
    with transaction.atomic():
        note_request(chat, mode)
        task_id = queueing.enqueue_fold(chat.pk)
    logger.info(
        "memory resummarize requested",
        extra={"chat": str(chat.pk), "mode": mode, "user": user.pk if user else None, "task": task_id},
    )
    return task_id


def note_request(chat: Chat, mode: Mode) -> None:
    """Write the request into the chat's brief, where it stands until it is done. Queues nothing.

    A rebuild includes an update and is not taken back by one. What was asked for does not wait for a back-off.
    """
    with transaction.atomic():
        brief, _ = ConversationBrief.objects.select_for_update().get_or_create(
            chat=chat, defaults=new_brief(chat)
        )
        if brief.requested != Requested.REBUILD:
            brief.requested = Requested(mode)
        brief.next_attempt_at = None
        brief.save(update_fields=["requested", "next_attempt_at"])
