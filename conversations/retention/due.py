"""Find the chats that are over, and erase them, oldest first.

`rule` decides; the queries here find what it would say yes to, each by an index in which the chats of one rule are in
the order of their last messages. So a sweep that finds nothing reads nothing, however many chats there are. Each chat
is asked once more under its lock: whoever sends it a message in time keeps it.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import F, QuerySet
from django.utils import timezone

from conversations import chat_lifecycle
from conversations.models import OWN_DAYS, UNSAID, ActiveReply, App, Chat, OwnEnd
from conversations.retention.rule import ServerRule, kept_for

logger = logging.getLogger(__name__)

PAGE = 100
"""Number of chats listed at once."""


class Group(NamedTuple):
    """Chats under one rule, those that end first at the front."""

    name: str
    """Of the rule: who says how long they are kept."""
    chats: QuerySet[Any]
    """Each has its time as `since`."""
    kept: timedelta
    """How long after `since` they are kept."""

    def due(self, now: datetime) -> QuerySet[Chat]:
        return self.chats.filter(since__lte=now - self.kept)

    def next_end(self) -> datetime | None:
        """Return when the first of them is over; None if there are none."""
        first = self.chats.values_list("since", flat=True).first()
        return None if first is None else first + self.kept


@dataclass(frozen=True, slots=True)
class Retention:
    """All rules as they are now."""

    server: ServerRule
    apps: dict[int, tuple[str, int | None]]
    """The name of each app, and its days if it has any."""

    @classmethod
    def now(cls) -> "Retention":
        apps = App.objects.values_list("pk", "user__username", "retain_days")
        return cls(
            ServerRule(settings.RETENTION_DAYS, settings.TEMPORARY_CHAT_HOURS),
            {pk: (name, days) for pk, name, days in apps},
        )

    def is_due(self, chat: Chat, now: datetime) -> bool:
        """Whether a chat, which the caller has locked, is to be erased. No reply is being written then."""
        kept = kept_for(
            self.server,
            temporary=chat.temporary,
            pinned=chat.pinned,
            own_days=chat.retain_days,
            app_days=self.apps[chat.app_id][1] if chat.app_id in self.apps else None,
        )
        is_over = kept is not None and chat.last_message_at + kept <= now
        return is_over and not ActiveReply.objects.filter(pk=chat.pk).exists()

    def erase(self, chats: QuerySet[Chat], key: UUID, now: datetime) -> bool:
        """Erase a chat if it is still one of these and due; return whether it was. What fails must not stop others."""
        try:
            return bool(chat_lifecycle.delete_chats(chats, [key], if_still=lambda one: self.is_due(one, now)))
        except Exception as exc:  # noqa: BLE001  # whatever it is
            logger.error("chat not erased", extra={"chat": str(key), "error": type(exc).__name__})
            return False

    def groups(self) -> Iterator[Group]:
        """Yield the chats that will be over some day, by rule."""
        last = Chat.objects.annotate(since=F("last_message_at")).order_by("last_message_at")
        own = Chat.objects.annotate(since=OwnEnd("last_message_at", "retain_days")).order_by("since")
        hours = timedelta(hours=self.server.temporary_hours)
        yield Group("temporary", last.filter(temporary=True), hours)
        yield Group("chat", own.filter(OWN_DAYS), timedelta())
        server = timedelta(days=self.server.days)
        unsaid = last.filter(UNSAID).order_by("app_id", "since")  # as the index has them
        if server:
            yield Group("server", unsaid.filter(app=None), server)
        for pk, (name, days) in self.apps.items():
            chats = unsaid.filter(app=pk)
            if days:
                yield Group(f"app {name}", chats, timedelta(days=days))
            elif days is None and server:
                yield Group("server", chats, server)


def erase_due(seconds: float | None = None) -> int:
    """Erase what is due, for at most about `seconds`; return how many chats are gone."""
    retention, now = Retention.now(), timezone.now()
    until, erased = None if seconds is None else time.monotonic() + seconds, 0
    for group in retention.groups():
        chats, stayed = group.due(now), 0
        while keys := list(chats.values_list("pk", flat=True)[stayed : stayed + PAGE]):
            for key in keys:
                if until is not None and time.monotonic() > until:
                    return erased
                is_gone = retention.erase(chats, key, now)
                erased, stayed = erased + is_gone, stayed + (not is_gone)
    return erased


class RuleState(NamedTuple):
    """How the chats under one rule stand."""

    name: str
    due: int
    next_end: datetime | None
    """When the first of them was or is over; None if there are none."""


def rule_states(at_most: int | None = None) -> list[RuleState]:
    """Return how the chats stand, by rule; at most that many are counted of each group."""
    now, found = timezone.now(), dict[str, RuleState]()
    for group in Retention.now().groups():
        before = found.get(group.name, RuleState(group.name, 0, None))
        ends = [one for one in (before.next_end, group.next_end()) if one is not None]
        due = before.due + group.due(now)[:at_most].count()
        found[group.name] = RuleState(group.name, due, min(ends, default=None))
    return list(found.values())
