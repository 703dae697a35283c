"""Leases on briefs, and the count of failed attempts.

A lease is taken by conditional UPDATE, using the database's clock. It only saves calls: correctness comes from the
compare and swap when a result is published, so a lease that expires while its owner works does no harm.

An attempt is recorded before it begins, and again when it fails. So an attempt in which the worker dies is counted
too, and a chat that kills workers or is always refused is passed to the built-in summarizer in the end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory.database.executors import UNSTORABLE, give_back
from chatmemory.runtime import fault_points, process
from memory.folding.attempts import MAX_BACKOFF_SECONDS, backoff_seconds
from memory.folding.summarizer import FoldAnswer, FoldFailed, FoldRequest, ask_summarizer
from memory.models import ConversationBrief, Requested, RevisionKind
from memory.usage import daily

CLOCK_TOLERANCE = timedelta(hours=1)
"""A timestamp this far beyond the longest lease or wait was written before the clock was set back, and is ignored."""

LONGEST_DELAY = timedelta(days=1)
FLAGGED = Q(due=True) | ~Q(requested=Requested.NOTHING)
WANTED = FLAGGED | Q(degraded=True)
"""Chats whose memory needs work, now or when their next attempt is allowed."""
UNPAUSED = Q(paused_at=None) | FLAGGED
"""What the built-in summarizer did is not replaced while updates are paused."""
NOT_DELAYED = (
    Q(delayed_until=None)
    | Q(delayed_until__lte=Now())
    | Q(delayed_until__gt=Now() + LONGEST_DELAY + CLOCK_TOLERANCE)
)
WAITS = ExpressionWrapper(Q(next_attempt_at__gt=Now()), BooleanField(null=True))
"""Whether the next attempt must wait; NULL if nothing failed."""
DELAYED = ExpressionWrapper(~NOT_DELAYED, BooleanField())


def unleased() -> Q:
    """Match briefs that no worker holds."""
    return (
        Q(lease_owner="")
        | Q(lease_expires_at=None)
        | Q(lease_expires_at__lt=Now())
        | Q(lease_expires_at__gt=_latest_expiry())
    )


def leased() -> Q:
    """Match briefs that a worker holds."""
    return Q(lease_expires_at__gte=Now(), lease_expires_at__lte=_latest_expiry()) & ~Q(lease_owner="")


def attempt_allowed() -> Q:
    """Match briefs whose next attempt is allowed."""
    longest = timedelta(seconds=max(MAX_BACKOFF_SECONDS, settings.MEMORY_FOLD_BACKOFF_SECONDS))
    return (
        Q(next_attempt_at=None)
        | Q(next_attempt_at__lte=Now())
        | Q(next_attempt_at__gt=Now() + longest + CLOCK_TOLERANCE)
    )


def _latest_expiry() -> Any:
    return Now() + timedelta(seconds=settings.MEMORY_FOLD_LEASE_SECONDS) + CLOCK_TOLERANCE


def take(chat_id: UUID) -> str | None:
    """Take the lease on a chat that has work, for `MEMORY_FOLD_LEASE_SECONDS`. None if it has no work, or is held."""
    owner = f"{process.name()}:{uuid4().hex[:8]}"[:100]
    wanted = ConversationBrief.objects.filter(unleased(), WANTED, UNPAUSED, chat_id=chat_id)
    return owner if wanted.update(lease_owner=owner, lease_expires_at=_expiry()) else None


def held(chat_id: UUID, owner: str) -> QuerySet[ConversationBrief]:
    """The brief, as long as `owner` holds its lease: use it for every update made under a lease."""
    return ConversationBrief.objects.filter(chat_id=chat_id, lease_owner=owner)


def count_attempt(chat_id: UUID, owner: str, attempt: int, wait_seconds: float) -> bool:
    """Record the upstream's `attempt` before it begins, and when the next one may follow. Renews the lease.

    So an attempt that kills its worker counts like any other. Returns False if `owner` no longer holds the lease.
    """
    wait = timedelta(seconds=wait_seconds)
    mine = held(chat_id, owner)
    return bool(mine.update(attempts=attempt, next_attempt_at=Now() + wait, lease_expires_at=_expiry()))


def renew(chat_id: UUID, owner: str) -> bool:
    """Renew the lease. Returns False if `owner` no longer holds it."""
    return bool(held(chat_id, owner).update(lease_expires_at=_expiry()))


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
        unleased(), NOT_DELAYED, UNPAUSED, WANTED & attempt_allowed() | FLAGGED & given_up
    )


def _expiry() -> object:
    return Now() + timedelta(seconds=settings.MEMORY_FOLD_LEASE_SECONDS)


logger = logging.getLogger(__name__)

T = TypeVar("T")
NOT_STORED = "not_stored"


class LeaseLost(Exception):
    """Another worker holds the lease now, or the chat is gone."""


def attempt(
    brief: ConversationBrief,
    folding: FoldRequest,
    *,
    builtin: bool,
    timeout: float,
    kind: RevisionKind = RevisionKind.FOLD,
) -> FoldAnswer:
    """Ask a summarizer to do `folding`. `brief` must have been loaded under the lease that it names.

    `kind` is the kind of revision that it will be part of. Raises `FoldFailed` after recording a failure, `LeaseLost`
    if the attempt was not even begun.
    """
    number = brief.attempts + 1
    if not _begin(brief, number, builtin=builtin):
        raise LeaseLost
    try:
        fault_points.point("fold.counted")
        give_back()
        answer = ask_summarizer(folding, chat_id=str(brief.chat_id), builtin=builtin, timeout=timeout)
        fault_points.point("fold.answered")
    except FoldFailed as failure:
        _failed(brief, number, kind, failure.code, str(failure))
        raise
    except Exception:
        _failed(brief, number, kind, "internal", "Folding failed by a fault of our own; the log has it.")
        raise
    return answer


def store_or_fail(brief: ConversationBrief, kind: RevisionKind, store: Callable[[], T]) -> T:
    """Call `store`, which writes the results of attempts, and return its value.

    A result that the database cannot store counts as a failed attempt: it is recorded, and `FoldFailed` is raised. A
    rebuild's progress is discarded, since it could never be stored.
    """
    try:
        return store()
    except UNSTORABLE as exc:
        logger.error(
            "memory does not fit the database",
            extra={"chat": str(brief.chat_id), "kind": kind.value, "error": type(exc).__name__},
        )
        number, message = brief.attempts + 1, "What the summarizer answered does not fit the database."
        held(brief.chat_id, brief.lease_owner).update(attempts=number, rebuild=None)
        _failed(brief, number, kind, NOT_STORED, message)
        raise FoldFailed(NOT_STORED, message) from exc


def reset_failures(brief: ConversationBrief) -> None:
    """Reset the failure count after an answer from the upstream, whether or not that answer is used.

    Failures to store still count: otherwise a rebuild that can never be stored would be made, and paid for, again and
    again.
    """
    mine = held(brief.chat_id, brief.lease_owner)
    if (brief.last_error or {}).get("code") == NOT_STORED:
        mine.update(attempts=brief.attempts, next_attempt_at=None)
    else:
        mine.update(attempts=0, next_attempt_at=None, last_error=None)


def _begin(brief: ConversationBrief, number: int, *, builtin: bool) -> bool:
    if builtin:
        return renew(brief.chat_id, brief.lease_owner)
    return count_attempt(brief.chat_id, brief.lease_owner, number, _wait(number))


def _failed(brief: ConversationBrief, number: int, kind: RevisionKind, code: str, message: str) -> None:
    error = {"code": code, "message": message, "at": timezone.now().isoformat(), "attempt": number}
    with transaction.atomic():
        held(brief.chat_id, brief.lease_owner).update(
            last_error=error, next_attempt_at=Now() + timedelta(seconds=_wait(number))
        )
        daily.count_failure(kind, brief.policy)
    logger.warning(
        "memory fold failed",
        extra={
            "chat": str(brief.chat_id),
            "code": code,
            "attempt": number,
            "next_attempt_in": _wait(number),
        },
    )


def _wait(number: int) -> float:
    return backoff_seconds(number, settings.MEMORY_FOLD_BACKOFF_SECONDS)
