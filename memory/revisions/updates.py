"""Pausing and resuming the updates of a chat's memory, by its owner or staff. What a pause is, `memory.pause` says."""

from __future__ import annotations

import logging

from django.contrib.auth.models import User
from django.db import transaction

from chatmemory.errors import NotFound
from conversations.accounts import quotas
from conversations.models import Chat
from memory.counters import COUNTERS, decide_due
from memory.folding import dispatch
from memory.models import ConversationBrief
from memory.models.briefs import new_brief
from memory.pause import PAUSE, pause, unpause

logger = logging.getLogger(__name__)

_CHANGED = ("epoch", "requested", "rebuild", "on_demand_at", "updated_at", *PAUSE, *COUNTERS)


def pause_updates(chat: Chat, user: User | None) -> ConversationBrief:
    """Let the memory of `chat` stay as it is: what is under way or asked for is dropped. Paused already: nothing."""
    with transaction.atomic():
        brief = _locked(chat)
        if brief.paused_at is None:
            brief.epoch += 1  # a fold under way, or the card of a reply, cannot publish
            pause(brief, user)
            decide_due(brief)
            brief.save(update_fields=_CHANGED)
            _log("memory paused", brief, user)
    return brief


def resume_updates(chat: Chat, user: User | None, *, on_demand: bool = False) -> ConversationBrief:
    """Let updates of `chat` go on: what is due by then is folded. Not paused: nothing.

    `on_demand`: as the chat's owner, within their limits, because a pause drops the fold that is made again then.
    Raises `RateLimited` and `QuotaExceeded`.
    """
    with transaction.atomic():
        brief = _locked(chat)
        if brief.paused_at is not None:
            unpause(brief)
            decide_due(brief)
            if brief.due and on_demand:
                quotas.take_rebuild(chat.owner_id)
                dispatch.demand(brief)
            brief.save(update_fields=_CHANGED)
            dispatch.hint(brief)
            _log("memory resumed", brief, user)
    return brief


def _locked(chat: Chat) -> ConversationBrief:
    if not Chat.objects.select_for_update(no_key=True).only("pk").filter(pk=chat.pk).exists():
        raise NotFound("This chat no longer exists.")
    rows = ConversationBrief.objects.select_for_update()
    return rows.get_or_create(chat=chat, defaults=new_brief(chat))[0]


def _log(event: str, brief: ConversationBrief, user: User | None) -> None:
    logger.info(event, extra={"chat": str(brief.chat_id), "user": user.pk if user else None})
