"""Find the chats whose time is over, by the most specific of the rules, and erase them.

A chat's own days come before its app's, and those before the server's; a pin keeps it for ever, but not a temporary
one. Each query finds the chats of one rule by an index in the order of their last messages. So a sweep that finds
nothing reads nothing, however many chats there are. A chat is asked for once more when it is locked: a message in time
keeps it.
"""

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from chatmemory import metrics
from chatmemory.database.expressions import DaysAfter
from chatmemory.database.owned import ChatKey
from conversations import chat_lifecycle
from conversations.accounts.models import App
from conversations.models import DEFAULT_RETENTION, OWN_DAYS, Chat

logger = logging.getLogger(__name__)

PAGE = 25
"""Chats of a rule that are erased before those of the next one have their turn."""
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
"""Before any chat's end. Where few chats have days of their own, PostgreSQL has no statistics of them: without a lower
bound it expects a third of all chats to be over, and starts parallel processes."""


def due_chats() -> Iterator[tuple[str, QuerySet[Any]]]:
    """Yield the chats that are over now by each rule, with its name, longest expired first."""
    now = timezone.now()

    def last_before(**kept: int) -> QuerySet[Any]:
        over = Chat.objects.filter(last_message_at__lte=now - timedelta(**kept))
        return over.order_by("last_message_at")

    yield "temporary", last_before(hours=settings.TEMPORARY_CHAT_HOURS).filter(temporary=True)
    own = Chat.objects.annotate(end=DaysAfter("last_message_at", "retain_days"))
    yield "chat", own.filter(OWN_DAYS, end__gt=LONG_AGO, end__lte=now).order_by("end")
    apps: dict[int | None, list[int]] = {}
    for app, days in App.objects.values_list("pk", "retain_days"):
        apps.setdefault(days, []).append(app)
    if server := settings.RETENTION_DAYS:
        yield "server", last_before(days=server).filter(DEFAULT_RETENTION, app=None)
        yield "server (apps)", last_before(days=server).filter(DEFAULT_RETENTION, app__in=apps.get(None, ()))
    for days in sorted(filter(None, apps)):
        yield f"apps with {days} days", last_before(days=days).filter(DEFAULT_RETENTION, app__in=apps[days])


def erase_due(seconds: float | None = None) -> int:
    """Erase what is due, for at most about `seconds`; return how many chats are gone."""
    until = None if seconds is None else time.monotonic() + seconds
    erased, stayed = 0, set[UUID]()
    while found := [
        (chats, ChatKey(*key))
        for _, chats in due_chats()
        for key in chats.exclude(pk__in=stayed).values_list("pk", "owner_id")[:PAGE]
    ]:
        for chats, key in found:
            if until is not None and time.monotonic() > until:
                return erased
            if _erase(chats, key):
                erased += 1
                metrics.ERASED.inc()
            else:
                stayed.add(key.id)
    return erased


def _erase(chats: QuerySet[Any], key: ChatKey) -> bool:
    """Erase a chat if it is still one of these, and no reply is being written in it; return whether it was erased."""
    try:
        return bool(chat_lifecycle.delete_chats(chats.filter(active_reply=None), [key]))
    except Exception as exc:  # noqa: BLE001  # one chat must not stop others
        logger.error("chat not erased", extra={"chat": str(key.id), "error": type(exc).__name__})
        return False
