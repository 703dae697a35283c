"""Which chats have work, in which order they get a task, and which worker holds them.

A lease is taken by conditional UPDATE, using the database's clock. It only saves calls: correctness comes from the
compare and swap when a result is published, so a lease that expires while its owner works does no harm.

Chats made due by new turns get a task at once; work that a chat's owner demanded (a resummarize, another policy, a
restored revision, an edit of what was folded) is counted by `conversations.accounts.quotas`, and gives way to
all due folds: of one user's chats, one at a time is in the queue or with a worker, and that one goes back to
the end of the queue after each batch while others wait. So a user who demands much work delays only their own. Of two
concurrent demands both may be let in: this is about fairness, and needs no lock.
"""

from datetime import timedelta
from itertools import starmap
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory.database.owned import ChatKey
from chatmemory.runtime import process, tracing
from chatmemory.runtime.logs import request_context, request_id
from memory import queue
from memory.briefs import decide_due
from memory.folding.attempts import MAX_BACKOFF_SECONDS
from memory.models import ConversationBrief, Requested

CLOCK_TOLERANCE = timedelta(hours=1)
LONGEST_DELAY = timedelta(days=1)


def _is_over(moment: str, longest: timedelta) -> Q:
    """Match rows whose `moment` is not set or has come, or is beyond the longest wait: then the clock was set back."""
    too_late = Now() + longest + CLOCK_TOLERANCE
    return Q((moment, None)) | Q((f"{moment}__lte", Now())) | Q((f"{moment}__gt", too_late))


FLAGGED = Q(due=True) | ~Q(requested=Requested.NOTHING)
HAS_WORK = FLAGGED | Q(degraded=True)
"""Chats whose memory needs work, now or when their next attempt is allowed."""
UNPAUSED = Q(paused_at=None) | FLAGGED
"""While updates are paused, work of the built-in summarizer is not replaced."""
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


def take(chat: ChatKey) -> str | None:
    """Take the lease on a chat that has work, for `MEMORY_FOLD_LEASE_SECONDS`. None if it has no work, or is held.

    A task of the chat may be queued again from now on.
    """
    owner = f"{process.name()}:{uuid4().hex[:8]}"[:100]
    rows = ConversationBrief.objects.filter(unleased(), HAS_WORK, UNPAUSED, **chat.columns)
    return owner if rows.update(lease_owner=owner, lease_expires_at=expiry(), queued_at=None) else None


def held_by(chat: ChatKey, owner: str) -> QuerySet[ConversationBrief]:
    """The brief, as long as `owner` holds its lease: use it for every update made under a lease."""
    return ConversationBrief.objects.filter(**chat.columns, lease_owner=owner)


def release(chat: ChatKey, owner: str) -> None:
    """Release the lease, if `owner` still holds it."""
    held_by(chat, owner).update(lease_owner="", lease_expires_at=None)


def ready() -> QuerySet[ConversationBrief]:
    """Briefs with work that no worker holds and that need not wait.

    Once the upstream was given up, due work does not wait for its back-off.
    """
    given_up = Q(attempts__gte=settings.MEMORY_FOLD_ATTEMPTS)
    return ConversationBrief.objects.filter(
        unleased(), NOT_DELAYED, UNPAUSED, HAS_WORK & ATTEMPT_ALLOWED | FLAGGED & given_up
    )


# Tasks


def save(brief: ConversationBrief) -> None:
    """Save a locked `brief` that was changed, and whether it is due by now; queue what can begin now."""
    decide_due(brief)
    brief.save()
    enqueue_if_ready(brief)


def enqueue_if_ready(brief: ConversationBrief) -> None:
    """Queue a task for a chat, which must have been saved, if it has work that can begin now.

    Otherwise the end of the current task, or the sweep, finds it.
    """
    if brief.on_demand_at is not None:
        enqueue_demanded(brief.chat_key)
    elif (brief.due or brief.requested) and ready().filter(**brief.chat_key.columns).exists():
        queue.enqueue_fold(brief.chat_key)


def enqueue_demanded(chat: ChatKey) -> None:
    """Queue what the owner of a chat demanded first, unless other such work of theirs is queued or with a worker."""
    with transaction.atomic():
        for demanded in next_demanded(queue.RECENT, 1, owner_id=chat.owner_id):
            # A chat that is changed at the same moment is left to that change, or to the sweep: it may wait for ours.
            free = ConversationBrief.objects.select_for_update(skip_locked=True).filter(**demanded.columns)
            # What another chat waits for, another request demanded.
            cause, trace = (request_id.get(), tracing.carrier()) if demanded == chat else ("", {})
            with request_context(cause), tracing.continued(trace):
                for brief in free.only("task_name"):
                    queue.enqueue_fold(demanded, brief.task_name)


def next_demanded(is_queued: Q, limit: int, **whose: Any) -> list[ChatKey]:
    """Return chats whose demanded work should be queued: one of each user without such work queued or running."""
    demanded = ConversationBrief.objects.filter(on_demand_at__isnull=False, **whose)
    taken = set(demanded.filter(is_queued | ~unleased()).values_list("owner_id", flat=True))
    chosen = list[ChatKey]()
    rows = ready().filter(FLAGGED, on_demand_at__isnull=False, **whose).order_by("on_demand_at")
    for chat in starmap(ChatKey, rows.values_list("chat_id", "owner_id")):
        if len(chosen) < limit and chat.owner_id not in taken:
            taken.add(chat.owner_id)
            chosen.append(chat)
    return chosen


def mark_demanded(brief: ConversationBrief, delay_seconds: int = 0) -> None:
    """Mark the work in `brief` as demanded by its owner, optionally delayed. Does not save the brief."""
    brief.on_demand_at = brief.on_demand_at or timezone.now()
    if delay_seconds:
        brief.delayed_until = timezone.now() + timedelta(seconds=delay_seconds)
