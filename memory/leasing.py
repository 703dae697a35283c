"""Who may work on a chat's memory: a lease on its brief, taken by conditional UPDATE, by the database's clock.

A lease only saves calls. What keeps memory right is the compare and swap when a result is published; so a
lease that ran out under its owner does no harm. What the work is is not known here.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from chatmemory import process
from memory.models import ConversationBrief, Requested
from memory.pacing import MAX_BACKOFF_SECONDS

TOO_FAR = timedelta(hours=1)
"""What lies that far beyond a lease's or a wait's length was written before the clock was set back, and counts no more.
"""

LONGEST = timedelta(seconds=settings.MEMORY_FOLD_LEASE_SECONDS)
LONGEST_WAIT = timedelta(seconds=max(MAX_BACKOFF_SECONDS, settings.MEMORY_FOLD_BACKOFF_SECONDS))
LONGEST_DELAY = timedelta(days=1)
FREE = (
    Q(lease_owner="")
    | Q(lease_expires_at=None)
    | Q(lease_expires_at__lt=Now())
    | Q(lease_expires_at__gt=Now() + LONGEST + TOO_FAR)
)
HELD = Q(lease_expires_at__gte=Now(), lease_expires_at__lte=Now() + LONGEST + TOO_FAR) & ~Q(lease_owner="")
FLAGGED = Q(due=True) | ~Q(requested=Requested.NOTHING)
WANTED = FLAGGED | Q(degraded=True)
"""Chats whose memory is to be worked on, now or when their next attempt has come."""
COME = (
    Q(next_attempt_at=None)
    | Q(next_attempt_at__lte=Now())
    | Q(next_attempt_at__gt=Now() + LONGEST_WAIT + TOO_FAR)
)


ALLOWED = (
    Q(delayed_until=None) | Q(delayed_until__lte=Now()) | Q(delayed_until__gt=Now() + LONGEST_DELAY + TOO_FAR)
)


def take(chat_id: UUID) -> str | None:
    """Take the lease on a chat that has work, for `MEMORY_FOLD_LEASE_SECONDS`. None: no work, or it is held."""
    owner = f"{process.name()}:{uuid4().hex[:8]}"[:100]
    free = ConversationBrief.objects.filter(FREE, WANTED, chat_id=chat_id)
    return owner if free.update(lease_owner=owner, lease_expires_at=_expiry()) else None


def held(chat_id: UUID, owner: str) -> QuerySet[ConversationBrief]:
    """The brief, as long as `owner` holds its lease: to update what is written under a lease."""
    return ConversationBrief.objects.filter(chat_id=chat_id, lease_owner=owner)


def count_attempt(chat_id: UUID, owner: str, attempt: int, wait_seconds: float) -> bool:
    """Write down, before it begins, that `attempt` of the upstream is made, and when the next may follow.

    So an attempt that kills its worker counts as any other. Renews the lease; False if it is `owner`'s no more.
    """
    wait = timedelta(seconds=wait_seconds)
    mine = held(chat_id, owner)
    return bool(mine.update(attempts=attempt, next_attempt_at=Now() + wait, lease_expires_at=_expiry()))


def renew(chat_id: UUID, owner: str) -> bool:
    """Renew the lease. False if it is not `owner`'s any more."""
    return bool(held(chat_id, owner).update(lease_expires_at=_expiry()))


def release(chat_id: UUID, owner: str) -> None:
    """Give the lease back, if it is still `owner`'s."""
    held(chat_id, owner).update(lease_owner="", lease_expires_at=None)


def release_dead(process_name: str) -> int:
    """Give back all that a process held which is known to be gone. Returns how many leases that were."""
    its = ConversationBrief.objects.filter(lease_owner__startswith=f"{process_name}:")
    return its.update(lease_owner="", lease_expires_at=None)


def ready() -> QuerySet[ConversationBrief]:
    """Briefs with work that nobody is at and that need not wait.

    Where the upstream was given up, what is due does not wait for it.
    """
    given_up = Q(attempts__gte=settings.MEMORY_FOLD_ATTEMPTS)
    return ConversationBrief.objects.filter(FREE, ALLOWED, WANTED & COME | FLAGGED & given_up)


def _expiry() -> object:
    return Now() + timedelta(seconds=settings.MEMORY_FOLD_LEASE_SECONDS)
