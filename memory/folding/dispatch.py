"""Which chats get a task now: what turns made due at once, what a chat's owner caused otherwise one after the other.

Such work on demand (a resummarize, another policy, a restored revision, an edit of what was folded) is counted by
`conversations.accounts.quotas`. It makes way for everybody's due folds: of one user's chats, one at a time is in the
queue or with a worker, and that one goes back to the end of the queue after each bite while others wait. So whoever
asks for much waits for it, and nobody else does. Two that race may both be let in: this is about fairness, and needs
no lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from memory import queue
from memory.folding import lease
from memory.models import ConversationBrief


def hint(brief: ConversationBrief) -> None:
    """Have a worker do what is to be done for a chat, if it can be now: else whoever ends, or the sweep, finds it."""
    if not (brief.due or brief.requested) or not _can_begin(brief, timezone.now()):
        return
    if brief.on_demand_at is None:
        queue.enqueue_fold(brief.chat_id)
    elif not _busy(brief.chat.owner_id).exclude(pk=brief.chat_id).exists():
        brief.task_name = queue.enqueue_fold(brief.chat_id, brief.task_name)


def demand(brief: ConversationBrief, delay_seconds: int = 0) -> None:
    """Note in `brief` that its owner caused what is to be done, and how long that is to wait. Saves nothing."""
    brief.on_demand_at = brief.on_demand_at or timezone.now()
    if delay_seconds:
        brief.delayed_until = timezone.now() + timedelta(seconds=delay_seconds)


def hint_next(chat_id: UUID) -> None:
    """The task of a chat has ended: queue what its owner demanded and is next, if anything."""
    owners = ConversationBrief.objects.filter(pk=chat_id).values("chat__owner")
    waiting = lease.ready().filter(lease.FLAGGED, on_demand_at__isnull=False, chat__owner__in=owners)
    first = waiting.select_related("chat").order_by("on_demand_at").first()
    if first is not None:
        hint(first)


def others_wait(chat_id: UUID) -> bool:
    """Whether a task of another chat waits for a worker; those that a cluster has fetched already do, too."""
    return ConversationBrief.objects.filter(queue.RECENT).exclude(pk=chat_id).exists()


def demanded_next(queued: Iterable[str], at_most: int) -> list[UUID]:
    """The chats whose demanded work is to be queued, one a user: for the sweep, which knows what is really `queued`."""
    demanded = ConversationBrief.objects.filter(on_demand_at__isnull=False)
    at_it = demanded.filter(Q(chat_id__in=list(queued)) | lease.in_hand())
    taken = set(at_it.values_list("chat__owner", flat=True))
    chosen = list[UUID]()
    rows = lease.ready().filter(lease.FLAGGED, on_demand_at__isnull=False).order_by("on_demand_at")
    for chat_id, owner in rows.values_list("chat_id", "chat__owner").iterator(chunk_size=500):
        if len(chosen) < at_most and owner not in taken:
            taken.add(owner)
            chosen.append(chat_id)
    return chosen


def _can_begin(brief: ConversationBrief, now: datetime) -> bool:
    """Whether nobody is at it and it need not wait. Where the upstream was given up, the built-in summarizer does not
    wait for it."""
    if brief.delayed_until is not None and brief.delayed_until > now:
        return False
    if brief.lease_expires_at is not None and brief.lease_expires_at > now:
        return False
    given_up = brief.attempts >= settings.MEMORY_FOLD_ATTEMPTS
    return given_up or brief.next_attempt_at is None or brief.next_attempt_at <= now


def _busy(owner_id: int) -> QuerySet[ConversationBrief]:
    """Chats of a user whose demanded work is in the queue or with a worker."""
    demanded = ConversationBrief.objects.filter(chat__owner=owner_id, on_demand_at__isnull=False)
    return demanded.filter(queue.RECENT | lease.in_hand())
