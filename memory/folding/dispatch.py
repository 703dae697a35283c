"""Which chats get a task now: those made due by new turns at once, work that a chat's owner demanded one at a time.

Work on demand (a resummarize, another policy, a restored revision, an edit of what was folded) is counted by
`conversations.accounts.quotas`. It gives way to everybody's due folds: of one user's chats, one at a time is in the
queue or with a worker, and that one goes back to the end of the queue after each bite while others wait. So a user
who demands much work delays only their own. Of two concurrent demands both may be let in: this is about fairness, and
needs no lock.
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


def enqueue_if_ready(brief: ConversationBrief) -> None:
    """Queue a task for a chat with work to do, if the work can begin now.

    Otherwise the end of the current task, or the sweep, finds it.
    """
    if not (brief.due or brief.requested) or not _can_begin(brief, timezone.now()):
        return
    if brief.on_demand_at is None:
        queue.enqueue_fold(brief.chat_id)
    elif not _busy(brief.chat.owner_id).exclude(pk=brief.chat_id).exists():
        brief.task_name = queue.enqueue_fold(brief.chat_id, brief.task_name)


def mark_demanded(brief: ConversationBrief, delay_seconds: int = 0) -> None:
    """Mark the work in `brief` as demanded by its owner, optionally delayed. Does not save the brief."""
    brief.on_demand_at = brief.on_demand_at or timezone.now()
    if delay_seconds:
        brief.delayed_until = timezone.now() + timedelta(seconds=delay_seconds)


def enqueue_next_demanded(chat_id: UUID) -> None:
    """Queue the work that the owner of a chat demanded next, if any. Call it when a task of that chat has ended."""
    owners = ConversationBrief.objects.filter(pk=chat_id).values("chat__owner")
    waiting = lease.ready().filter(lease.FLAGGED, on_demand_at__isnull=False, chat__owner__in=owners)
    first = waiting.select_related("chat").order_by("on_demand_at").first()
    if first is not None:
        enqueue_if_ready(first)


def others_wait(chat_id: UUID) -> bool:
    """Whether a task of another chat waits for a worker."""
    return ConversationBrief.objects.filter(queue.RECENT).exclude(pk=chat_id).exists()


def demanded_next(queued: Iterable[str], at_most: int) -> list[UUID]:
    """Return chats whose demanded work is to be queued, one per user.

    For the sweep, which knows what is actually `queued`.
    """
    demanded = ConversationBrief.objects.filter(on_demand_at__isnull=False)
    at_it = demanded.filter(Q(chat_id__in=list(queued)) | lease.leased())
    taken = set(at_it.values_list("chat__owner", flat=True))
    chosen = list[UUID]()
    rows = lease.ready().filter(lease.FLAGGED, on_demand_at__isnull=False).order_by("on_demand_at")
    for chat_id, owner in rows.values_list("chat_id", "chat__owner"):
        if len(chosen) < at_most and owner not in taken:
            taken.add(owner)
            chosen.append(chat_id)
    return chosen


def _can_begin(brief: ConversationBrief, now: datetime) -> bool:
    """Whether no worker has the chat and it need not wait.

    Once the upstream was given up, the built-in summarizer does not wait for its back-off.
    """
    if brief.delayed_until is not None and brief.delayed_until > now:
        return False
    if brief.lease_expires_at is not None and brief.lease_expires_at > now:
        return False
    given_up = brief.attempts >= settings.MEMORY_FOLD_ATTEMPTS
    return given_up or brief.next_attempt_at is None or brief.next_attempt_at <= now


def _busy(owner_id: int) -> QuerySet[ConversationBrief]:
    """A user's chats whose demanded work is in the queue or with a worker."""
    demanded = ConversationBrief.objects.filter(chat__owner=owner_id, on_demand_at__isnull=False)
    return demanded.filter(queue.RECENT | lease.leased())
