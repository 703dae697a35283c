"""Requests to bring a chat's memory up to date beyond what is due: later by a worker, or at once in this process.

Requests are stored in the brief; the queue is only a hint.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Literal

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Case, Count, F, FloatField, IntegerField, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Cast

from chatmemory.database.ids import new_id
from chatmemory.errors import NotFound
from chatmemory.llm import registry
from conversations.accounts import quotas
from conversations.models import Chat, Message, Role, Status
from memory import queue
from memory.briefs import limits_of, stored_state, wanted_limits
from memory.explain.estimate import Estimate, FoldSpan, estimate
from memory.folding import dispatch
from memory.folding.bites import beyond_window
from memory.folding.fold import FoldReport, fold
from memory.history.rows import newest_turns, pending_seq
from memory.limits import MemoryLimits
from memory.models import ConversationBrief, Requested, RevisionKind, SummaryRevision
from memory.models.briefs import new_brief
from memory.pause import PAUSE, unpause
from memory.policies import get_policy
from memory.policies.protocol import Policy, State

logger = logging.getLogger(__name__)

Mode = Literal["update", "rebuild"]


def request_resummarize(chat: Chat, mode: Mode, user: User | None = None) -> str:
    """Have everything outside the window folded, or the memory rebuilt from the originals. Returns the task's id.

    This is the operator's way: at once, regardless of the limits of the chat's owner. `user` is who requested it, for
    the log.
    """
    with transaction.atomic():
        note_request(chat, mode)
        task_id = queue.enqueue_fold(chat.pk)
    logger.info(
        "memory resummarize requested",
        extra={"chat": str(chat.pk), "mode": mode, "user": user.pk if user else None, "task": task_id},
    )
    return task_id


def demand_resummarize(chat: Chat, mode: Mode) -> str:
    """Request the same as the chat's owner, within their limits. Returns the id of the task that does it, or will.

    An earlier request that is still open covers this one, which is then not counted again. A request does not shorten
    the wait after a failure of the summarizer. Raises `NotFound`, `RateLimited` and `QuotaExceeded`.
    """
    with transaction.atomic():
        locked = Chat.objects.select_for_update().filter(pk=chat.pk).first()
        if locked is None:
            raise NotFound("This chat no longer exists.")
        brief, _ = ConversationBrief.objects.select_for_update().get_or_create(
            chat=locked, defaults=new_brief(locked)
        )
        unpause(brief)
        if brief.requested not in (Requested.REBUILD, mode):
            quotas.take_rebuild(locked.owner_id)
            brief.requested = Requested(mode)
            if brief.queued_at is None:  # else the waiting task does this as well
                brief.task_name = str(new_id())
            dispatch.mark_demanded(brief)
        brief.save(update_fields=["requested", "task_name", "on_demand_at", *PAUSE])
        dispatch.enqueue_if_ready(brief)
    logger.info(
        "memory resummarize demanded",
        extra={"chat": str(chat.pk), "mode": mode, "task": brief.task_name},
    )
    return brief.task_name


def note_request(chat: Chat, mode: Mode) -> None:
    """Store the request in the chat's brief, where it stays until it is done. Queues nothing.

    A rebuild includes an update and is not replaced by one. An operator's request waits neither for a back-off nor
    for the limits of the chat's owner. It ends a pause of updates.
    """
    with transaction.atomic():
        brief, _ = ConversationBrief.objects.select_for_update().get_or_create(
            chat=chat, defaults=new_brief(chat)
        )
        if brief.requested != Requested.REBUILD:
            brief.requested = Requested(mode)
        brief.next_attempt_at = brief.delayed_until = brief.on_demand_at = None
        unpause(brief)
        fields = ["requested", "next_attempt_at", "delayed_until", "on_demand_at"]
        brief.save(update_fields=[*fields, *PAUSE])


def resummarize_now(chat: Chat, mode: Mode, *, tell: Callable[[int], None] = lambda _: None) -> FoldReport:
    """Update or rebuild the memory of `chat` in this process, however long it takes; `tell` is called as in `fold`.

    Must not run in a transaction. The outcome is `done` or `nothing` on success; `idle` if a worker has the chat.
    """
    note_request(chat, mode)
    total = FoldReport(chat.pk)
    while True:
        report = fold(chat.pk, until=time.monotonic() + settings.MEMORY_FOLD_SECONDS, tell=tell)
        total.add(report)
        if report.outcome != "more":
            break
    if total.published and report.outcome in ("idle", "nothing"):
        total.outcome = "done"
    return total


CALLS_LOOKED_AT = 50
"""Newest folds from which the time of a call is estimated."""


def estimate_for(chat: Chat, mode: Mode, *, after_seq: int | None = None) -> Estimate:
    """Estimate what a rebuild of the chat's memory would take, or an update of everything beyond the window.

    `after_seq`: for an update, start after this message instead of at the end of the memory in use.
    """
    brief = ConversationBrief.objects.filter(chat=chat).first() or ConversationBrief(
        chat=chat, **new_brief(chat)
    )
    brief.chat = chat
    policy, limits = _wanted(brief) if mode == "rebuild" else (get_policy(brief.policy), limits_of(brief))
    begins = State() if mode == "rebuild" else stored_state(brief)
    after = 0 if mode == "rebuild" else brief.folded_through_seq if after_seq is None else after_seq
    newest = newest_turns(chat.pk, after, before_seq=pending_seq(chat.pk))
    through = beyond_window(policy, begins, newest, after, limits)
    # The current state is about as large as the one that is sent along from bite to bite.
    carried = stored_state(brief) if policy.name == brief.policy else begins
    return estimate(
        span_of(chat, after, through, limits.bite_tokens),
        policy,
        carried,
        limits,
        summarizer=settings.SUMMARIZER,
        is_free=registry.is_offline(),
        call_ms=_call_ms(chat),
    )


def span_of(chat: Chat, after_seq: int, through_seq: int, bite_tokens: int) -> FoldSpan:
    """Count the messages with `after_seq` < seq ≤ `through_seq` that a summarizer would read."""
    giant = When(token_count__gt=bite_tokens, then=Value(bite_tokens))
    tokens = Case(giant, default=F("token_count"), output_field=IntegerField())
    asked, replied = Q(role=Role.USER), ~Q(role=Role.USER)
    long = Cast(tokens, FloatField())
    found = _spoken(chat, after_seq, through_seq).aggregate(
        questions=Count("pk", filter=asked),
        question_tokens=Sum(tokens, filter=asked, default=0),
        replies=Count("pk", filter=replied),
        reply_tokens=Sum(tokens, filter=replied, default=0),
        reply_squares=Sum(long * long, filter=replied, default=0.0),
    )
    return FoldSpan(**found)


def _spoken(chat: Chat, after_seq: int, through_seq: int) -> QuerySet[Message]:
    rows = Message.objects.filter(chat=chat, seq__gt=after_seq, seq__lte=through_seq, token_count__gt=0)
    return rows.filter(superseded_by=None).exclude(status__in=[Status.FAILED, Status.DELETED])


def _wanted(brief: ConversationBrief) -> tuple[Policy, MemoryLimits]:
    """Policy and limits of a rebuild: those set on the chat, which may differ from the ones in use."""
    policy = get_policy(brief.chat.policy)
    return policy, wanted_limits(brief.chat, policy)


def _call_ms(chat: Chat) -> list[int]:
    folds = SummaryRevision.objects.filter(
        chat=chat, kind=RevisionKind.FOLD, duration_ms__gt=0, input_tokens__gt=0
    )
    return list(folds.order_by("-version").values_list("duration_ms", flat=True)[:CALLS_LOOKED_AT])
