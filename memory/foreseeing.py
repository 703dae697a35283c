"""What resummarizing a chat would take, read from counts alone: no text is read, and nothing is changed.

One aggregate over the chat's messages, by their index, and the newest turns, as every fold reads them. What follows
from the counts is `memory.estimating`'s.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models import Case, Count, F, FloatField, IntegerField, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Cast

from chatmemory.llm import registry
from conversations.models import Chat, Message, Role, Status
from memory.chat_limits import limits_of, new_brief, wanted_limits
from memory.estimating import Estimate, Span, estimate
from memory.limits import MemoryLimits
from memory.loading import newest_turns, pending_seq, stored_state
from memory.models import ConversationBrief, Kind, SummaryRevision
from memory.policies import get_policy
from memory.policies.protocol import Policy, State
from memory.requesting import Mode
from memory.spans import beyond_window

CALLS_LOOKED_AT = 50
"""Newest folds by which the time of a call is told."""


def foresee(chat: Chat, mode: Mode, *, after_seq: int | None = None) -> Estimate:
    """What a rebuild of the chat's memory would take, or an update: of all beyond the window, due or not.

    `after_seq`: an update from there on, instead of from where the memory in use ends.
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
    # What is remembered now is about as large as what is sent along from bite to bite.
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


def span_of(chat: Chat, after_seq: int, through_seq: int, bite_tokens: int) -> Span:
    """Counts of the messages with `after_seq` < seq ≤ `through_seq` that a summarizer would read."""
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
    return Span(**found)


def _spoken(chat: Chat, after_seq: int, through_seq: int) -> QuerySet[Message]:
    rows = Message.objects.filter(chat=chat, seq__gt=after_seq, seq__lte=through_seq, token_count__gt=0)
    return rows.filter(superseded_by=None).exclude(status__in=[Status.FAILED, Status.DELETED])


def _wanted(brief: ConversationBrief) -> tuple[Policy, MemoryLimits]:
    """By what a rebuild is made: the chat's own policy, which need not be the one in use."""
    policy = get_policy(brief.chat.policy)
    return policy, wanted_limits(brief.chat, policy)


def _call_ms(chat: Chat) -> list[int]:
    folds = SummaryRevision.objects.filter(chat=chat, kind=Kind.FOLD, duration_ms__gt=0, input_tokens__gt=0)
    return list(folds.order_by("-version").values_list("duration_ms", flat=True)[:CALLS_LOOKED_AT])
