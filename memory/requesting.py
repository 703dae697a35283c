"""Asking for a chat's memory to be brought up to date, beyond what is due. Durable: the queue is only told of it."""

from __future__ import annotations

import logging
from typing import Literal

from django.contrib.auth.models import User
from django.db import transaction

from chatmemory.errors import NotFound
from chatmemory.ids import new_id
from conversations import quotas
from conversations.models import Chat
from memory import dispatch, queueing
from memory.chat_limits import new_brief
from memory.models import ConversationBrief, Requested

logger = logging.getLogger(__name__)

Mode = Literal["update", "rebuild"]


def request_resummarize(chat: Chat, mode: Mode, user: User | None = None) -> str:
    """Have everything outside the window folded, or the memory rebuilt from the originals. Returns the task's id.

    As the operator: at once, whatever the limits of the chat's owner. `user` is who asked, for the log.
    """
    with transaction.atomic():
        note_request(chat, mode)
        task_id = queueing.enqueue_fold(chat.pk)
    logger.info(
        "memory resummarize requested",
        extra={"chat": str(chat.pk), "mode": mode, "user": user.pk if user else None, "task": task_id},
    )
    return task_id


def demand_resummarize(chat: Chat, mode: Mode) -> str:
    """The same for the chat's owner, within their limits. Returns the id of the task that does it, or will.

    What was asked for before and is not done yet covers this, and is not counted again. A summarizer that fails is not
    asked earlier. Raises `NotFound`, `RateLimited` and `QuotaExceeded`.
    """
    with transaction.atomic():
        locked = Chat.objects.select_for_update().filter(pk=chat.pk).first()
        if locked is None:
            raise NotFound("There is no such chat any more.")
        brief, _ = ConversationBrief.objects.select_for_update().get_or_create(
            chat=locked, defaults=new_brief(locked)
        )
        if brief.requested not in (Requested.REBUILD, mode):
            quotas.take_rebuild(locked.owner_id)
            brief.requested = Requested(mode)
            if brief.queued_at is None:  # else the task that waits does this, too
                brief.task_name = str(new_id())
            dispatch.demand(brief)
            brief.save(update_fields=["requested", "task_name", "on_demand_at"])
        dispatch.hint(brief)
    logger.info(
        "memory resummarize demanded",
        extra={"chat": str(chat.pk), "mode": mode, "task": brief.task_name},
    )
    return brief.task_name


def note_request(chat: Chat, mode: Mode) -> None:
    """Write the request into the chat's brief, where it stands until it is done. Queues nothing.

    A rebuild includes an update and is not taken back by one. What an operator asks for waits neither for a back-off
    nor for the limits of the chat's owner.
    """
    with transaction.atomic():
        brief, _ = ConversationBrief.objects.select_for_update().get_or_create(
            chat=chat, defaults=new_brief(chat)
        )
        if brief.requested != Requested.REBUILD:
            brief.requested = Requested(mode)
        brief.next_attempt_at = brief.delayed_until = brief.on_demand_at = None
        brief.save(update_fields=["requested", "next_attempt_at", "delayed_until", "on_demand_at"])
