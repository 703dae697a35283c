"""Which chats have work, which worker holds them, and which get a task now.

A lease is taken by conditional UPDATE, using the database's clock. It only saves calls: correctness comes from the
compare and swap when a result is published, so a lease that expires while its owner works does no harm.

Chats made due by new turns get a task at once; work that a chat's owner demanded (a resummarize, another policy, a
restored revision, an edit of what was folded) is counted by `conversations.accounts.quotas`, and gives way to
everybody's due folds: of one user's chats, one at a time is in the queue or with a worker, and that one goes back to
the end of the queue after each bite while others wait. So a user who demands much work delays only their own. Of two
concurrent demands both may be let in: this is about fairness, and needs no lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory.runtime import process
from memory import queue
from memory.folding.attempts import MAX_BACKOFF_SECONDS
from memory.models import ConversationBrief, Requested

CLOCK_TOLERANCE = timedelta(hours=1)
LONGEST_DELAY = timedelta(days=1)


def _is_over(moment: str, longest: timedelta) -> Q:
    """Match rows whose `moment` is not set or has come, or is beyond the longest wait: then the clock was set back."""
    too_late = Now() + longest + CLOCK_TOLERANCE
    return Q((moment, None)) | Q((f"{moment}__lte", Now())) | Q((f"{moment}__gt", too_late))


FLAGGED = Q(due=True) | ~Q(requested=Requested.NOTHING)
WANTED = FLAGGED | Q(degraded=True)
"""Chats whose memory needs work, now or when their next attempt is allowed."""
UNPAUSED = Q(paused_at=None) | FLAGGED
"""What the built-in summarizer did is not replaced while updates are paused."""
NOT_DELAYED = _is_over("delayed_until", LONGEST_DELAY)
ATTEMPT_ALLOWED = _is_over("next_attempt_at", timedelta(seconds=MAX_BACKOFF_SECONDS))


def unleased() -> Q:
    """Match briefs that no worker holds."""
    return Q(lease_owner="") | _is_over("lease_expires_at", _lease())


def _lease() -> timedelta:
    return timedelta(seconds=settings.MEMORY_FOLD_LEASE_SECONDS)


def expiry() -> Any:
    """When a lease that is taken or renewed now expires."""
    return Now() + _lease()


def take(chat_id: UUID) -> str | None:
    """Take the lease on a chat that has work, for `MEMORY_FOLD_LEASE_SECONDS`. None if it has no work, or is held.

    A task of the chat may be queued again from now on.
    """
    owner = f"{process.name()}:{uuid4().hex[:8]}"[:100]
    wanted = ConversationBrief.objects.filter(unleased(), WANTED, UNPAUSED, chat_id=chat_id)
    return owner if wanted.update(lease_owner=owner, lease_expires_at=expiry(), queued_at=None) else None


def held(chat_id: UUID, owner: str) -> QuerySet[ConversationBrief]:
    """The brief, as long as `owner` holds its lease: use it for every update made under a lease."""
    return ConversationBrief.objects.filter(chat_id=chat_id, lease_owner=owner)


def release(chat_id: UUID, owner: str) -> None:
    """Release the lease, if `owner` still holds it."""
    held(chat_id, owner).update(lease_owner="", lease_expires_at=None)


def release_dead(process_name: str) -> int:
    """Release all leases of a process that is known to be gone. Returns how many there were."""
    its = ConversationBrief.objects.filter(lease_owner__startswith=f"{process_name}:")
    return its.update(lease_owner="", lease_expires_at=None)


def ready() -> QuerySet[ConversationBrief]:
    """Briefs with work that no worker holds and that need not wait.

    Once the upstream was given up, due work does not wait for its back-off.
    """
    given_up = Q(attempts__gte=settings.MEMORY_FOLD_ATTEMPTS)
    return ConversationBrief.objects.filter(
        unleased(), NOT_DELAYED, UNPAUSED, WANTED & ATTEMPT_ALLOWED | FLAGGED & given_up
    )


# Tasks


def enqueue_if_ready(brief: ConversationBrief) -> None:
    """Queue a task for a chat, which must have been saved, if it has work that can begin now.

    Otherwise the end of the current task, or the sweep, finds it.
    """
    if not (brief.due or brief.requested) or not ready().filter(pk=brief.pk).exists():
        return
    if brief.on_demand_at is None:
        queue.enqueue_fold(brief.chat_id)
        return
    others = ConversationBrief.objects.filter(chat__owner=brief.chat.owner_id, on_demand_at__isnull=False)
    if not others.filter(queue.RECENT | ~unleased()).exclude(pk=brief.chat_id).exists():
        brief.task_name = queue.enqueue_fold(brief.chat_id, brief.task_name)


def mark_demanded(brief: ConversationBrief, delay_seconds: int = 0) -> None:
    """Mark the work in `brief` as demanded by its owner, optionally delayed. Does not save the brief."""
    brief.on_demand_at = brief.on_demand_at or timezone.now()
    if delay_seconds:
        brief.delayed_until = timezone.now() + timedelta(seconds=delay_seconds)


def enqueue_next_demanded(chat_id: UUID) -> None:
    """Queue the work that the owner of a chat demanded next, if any. Call it when a task of that chat has ended."""
    owners = ConversationBrief.objects.filter(pk=chat_id).values("chat__owner")
    waiting = ready().filter(FLAGGED, on_demand_at__isnull=False, chat__owner__in=owners)
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
    at_it = demanded.filter(Q(chat_id__in=list(queued)) | ~unleased())
    taken = set(at_it.values_list("chat__owner", flat=True))
    chosen = list[UUID]()
    rows = ready().filter(FLAGGED, on_demand_at__isnull=False).order_by("on_demand_at")
    for chat_id, owner in rows.values_list("chat_id", "chat__owner"):
        if len(chosen) < at_most and owner not in taken:
            taken.add(owner)
            chosen.append(chat_id)
    return chosen
