"""Pausing and resuming the updates of a chat's memory, by its owner or staff (`ConversationBrief.pause`)."""

from __future__ import annotations

import logging

from django.contrib.auth.models import User
from django.db import transaction

from chatmemory.errors import NotFound
from conversations.accounts import quotas
from conversations.models import Chat
from memory.briefs import decide_due, lock_brief
from memory.folding import dispatch
from memory.models import PAUSE, ConversationBrief

logger = logging.getLogger(__name__)

_CHANGED = ("epoch", "requested", "rebuild", "on_demand_at", "updated_at", "due", *PAUSE)


def pause_updates(chat: Chat, user: User | None) -> ConversationBrief:
    """Freeze the memory of `chat`: running and requested work is dropped. Does nothing if paused already."""
    with transaction.atomic():
        brief = _locked(chat)
        if brief.paused_at is None:
            brief.epoch += 1  # so that a running fold, or the card of a reply, cannot publish
            brief.pause(user)
            decide_due(brief)
            brief.save(update_fields=_CHANGED)
            _log("memory paused", brief, user)
    return brief


def resume_updates(chat: Chat, user: User | None, *, on_demand: bool = False) -> ConversationBrief:
    """Resume updates of `chat`: what has become due is folded. Does nothing if not paused.

    `on_demand`: as the chat's owner, within their limits, because the fold that the pause dropped is repeated now.
    Raises `RateLimited` and `QuotaExceeded`.
    """
    with transaction.atomic():
        brief = _locked(chat)
        if brief.paused_at is not None:
            brief.unpause()
            decide_due(brief)
            if brief.due and on_demand:
                quotas.take_rebuild(chat.owner_id)
                dispatch.mark_demanded(brief)
            brief.save(update_fields=_CHANGED)
            dispatch.enqueue_if_ready(brief)
            _log("memory resumed", brief, user)
    return brief


def _locked(chat: Chat) -> ConversationBrief:
    if not Chat.objects.select_for_update(no_key=True).only("pk").filter(pk=chat.pk).exists():
        raise NotFound("This chat no longer exists.")
    return lock_brief(chat)


def _log(event: str, brief: ConversationBrief, user: User | None) -> None:
    logger.info(event, extra={"chat": str(brief.chat_id), "user": user.pk if user else None})
