"""Publishing a summarizer's result: compare and swap on a brief's version and epoch, and write the revision.

Each is one short transaction. Locks are taken in the same order as in the transaction that finishes a reply: the
chat, then its brief.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Sum
from django.utils import timezone

from chatmemory.database.compiled import Select
from chatmemory.llm.protocol import storable_cost
from chatmemory.runtime import fault_points
from chatmemory.text.spans import Retained
from chatmemory.text.tokens import MESSAGE_OVERHEAD
from conversations.models import TEXT_STATUSES, Chat, Message
from memory.briefs import decide_due
from memory.folding.attempts import backoff_seconds
from memory.models import ConversationBrief, Requested, RevisionKind, SummaryRevision
from memory.policies import get_policy
from memory.policies.protocol import Counts, State
from memory.usage import daily

logger = logging.getLogger(__name__)

MAX_STORED_TOKENS = 2**31 - 1
"""The largest token count that a revision's column can hold: the calls of a long rebuild may add up to more."""


class StepOutcome(Enum):
    """The outcome of a step."""

    PUBLISHED = "published"
    KEPT = "kept"
    """A bite of a rebuild was saved; the rebuild is published as a whole."""
    LOST = "lost"
    """The result was dropped, because the memory had changed in the meantime."""


@dataclass(frozen=True, slots=True)
class Result:
    """A result to publish: a state, the turns that went into it, and what it cost."""

    kind: RevisionKind
    policy: str
    state: State
    degraded: bool
    """The built-in summarizer replaced the upstream, in all or part of it."""
    from_seq: int
    through_seq: int
    folded: Counts
    tokens_before: int
    last_assistant_id: UUID | None
    source_hash: str
    retained: Retained
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    model: str
    prompt_hash: str
    duration_ms: int
    focus: str = ""
    custom_instructions: bool = False
    """Made with the operator's instructions for the summarizer."""
    seen_seq: int = 0
    """Seq of the last message that went into the state, if later than `through_seq`."""
    soft_faults: Sequence[Mapping[str, Any]] = ()
    """Defects of the state, for staff."""
    """For a rebuild: what it found the memory before it to have lost and added."""
    by_reply: bool = False
    """A reply's card, without a call to the summarizer: records of the summarizer's failures are kept."""


_LOCKED_CHAT = Select(
    lambda chat: Chat.objects.select_for_update(no_key=True).filter(pk=chat).values_list("pk"), UUID
)
_LOCKED_BRIEF = Select(lambda chat: ConversationBrief.objects.select_for_update().filter(pk=chat), UUID)


def locked_brief(chat_id: UUID) -> ConversationBrief | None:
    """Return the brief, locked after its chat: the order of locks used everywhere. None if the chat is gone."""
    _LOCKED_CHAT.rows(chat_id)
    return _LOCKED_BRIEF.first(chat_id)


def publish(seen: ConversationBrief, result: Result) -> StepOutcome:
    """Make `result` the memory in use, if the brief is still at the version and epoch of `seen`."""
    started = time.monotonic()
    with transaction.atomic():
        brief = locked_brief(seen.chat_id)
        if brief is None or (brief.version, brief.epoch) != (seen.version, seen.epoch):
            logger.info(
                "memory fold lost the race", extra={"chat": str(seen.chat_id), "version": seen.version}
            )
            return StepOutcome.LOST
        write(brief, result)
        _count(brief, result)
        fault_points.point("publish.stored")
    fault_points.point("publish.committed")
    _log(brief, result, started)
    return StepOutcome.PUBLISHED


def write(brief: ConversationBrief, result: Result) -> None:
    """Make `result`, computed from the current `brief`, the memory in use. Brief and chat must be locked.

    This ends a pause of updates: somebody requested the update, or the prompt was full.
    """
    brief.unpause()
    parent, brief.version = brief.head or None, brief.version + 1
    brief.head = brief.version
    brief.policy = result.policy
    if result.kind == RevisionKind.REBUILD:
        brief.options = brief.chat.options
    brief.global_summary, brief.state = result.state.summary, result.state.to_json()
    brief.token_count = get_policy(result.policy).size(result.state)
    brief.kept_percent = round(100 * result.retained.share) if brief.token_count else None
    brief.folded_tokens = _folded_tokens(brief, result)
    brief.folded_through_seq = result.through_seq
    seen_seq = max(result.seen_seq, result.through_seq)
    # A fold starts from what the state knew, which may include turns that are not folded yet but were part of a card.
    brief.seen_seq = seen_seq if result.kind == RevisionKind.REBUILD else max(seen_seq, brief.seen_seq)
    if result.last_assistant_id or result.kind == RevisionKind.REBUILD:
        brief.last_summarized_message_id = result.last_assistant_id
    _settle(brief, result)
    decide_due(brief)
    _revision(brief, parent, result).save(force_insert=True)
    if result.kind == RevisionKind.FOLD and not brief.degraded and _has_folded_enough(brief.chat_id):
        brief.requested = Requested.REBUILD
    brief.save()


def _folded_tokens(before: ConversationBrief, result: Result) -> int:
    """Tokens of all turns up to the end of `result`, counted in the tables if an older version folded some."""
    if result.kind == RevisionKind.REBUILD or not before.folded_through_seq:
        return result.folded.tokens
    known = before.folded_tokens
    return (_count_folded(before) if known is None else known) + result.folded.tokens


def _count_folded(brief: ConversationBrief) -> int:
    """Tokens of the turns that `brief` has folded. Reads the chat once."""
    spoken = Message.objects.filter(
        chat_id=brief.chat_id,
        seq__lte=brief.folded_through_seq,
        superseded_by=None,
        token_count__gt=0,
        status__in=TEXT_STATUSES,
    )
    found = spoken.aggregate(tokens=Sum("token_count"), messages=Count("pk"))
    return (found["tokens"] or 0) + MESSAGE_OVERHEAD * int(found["messages"])


def _count(brief: ConversationBrief, result: Result) -> None:
    """Add the fold to its day's figures."""
    daily.count_fold(
        result.kind,
        result.policy,
        cost_usd=result.cost_usd,
        share=result.retained.share,
        degraded=result.degraded,
        turns=result.folded.turns,
        input_tokens=result.input_tokens,
        output_tokens=result.output_tokens,
        duration_ms=result.duration_ms,
    )


def _has_folded_enough(chat_id: UUID) -> bool:
    """Whether the setting for it requires a rebuild after this many folds in a row."""
    every = settings.MEMORY_REBUILD_EVERY_FOLDS
    if not every:
        return False
    made = SummaryRevision.objects.filter(chat_id=chat_id, kind__in=[RevisionKind.FOLD, RevisionKind.REBUILD])
    kinds = list(made.order_by("-version").values_list("kind", flat=True)[:every])
    return len(kinds) == every and RevisionKind.REBUILD not in kinds


def _log(brief: ConversationBrief, result: Result, started: float) -> None:
    logger.info(
        "memory folded",
        extra={
            "chat": str(brief.chat_id),
            "kind": result.kind.value,
            "version": brief.version,
            "turns": result.folded.turns,
            "tokens_before": result.tokens_before,
            "tokens_after": brief.token_count,
            "call_ms": result.duration_ms,
            "write_ms": round((time.monotonic() - started) * 1000),
            "cost_usd": None if result.cost_usd is None else float(result.cost_usd),
            "degraded": result.degraded,
        },
    )


def _settle(brief: ConversationBrief, result: Result) -> None:
    """Update the pending work after a success. A success of the upstream clears every failure."""
    if result.by_reply:
        return
    if result.kind == RevisionKind.REBUILD:
        brief.degraded, brief.rebuild = result.degraded, None
        brief.requested = Requested.NOTHING
    if not result.degraded:
        brief.attempts, brief.next_attempt_at, brief.last_error = 0, None, None
        return
    brief.degraded = True
    now = timezone.now()
    if brief.next_attempt_at is None or brief.next_attempt_at < now:
        wait = backoff_seconds(brief.attempts, settings.MEMORY_FOLD_BACKOFF_SECONDS)
        brief.next_attempt_at = now + timedelta(seconds=wait)


def _revision(brief: ConversationBrief, parent: int | None, result: Result) -> SummaryRevision:
    return SummaryRevision.of(
        brief,
        kind=result.kind,
        parent=parent,
        tokens_before=result.tokens_before,
        degraded=result.degraded,
        from_seq=result.from_seq,
        turns=result.folded.turns,
        input_tokens=min(result.input_tokens, MAX_STORED_TOKENS),
        output_tokens=min(result.output_tokens, MAX_STORED_TOKENS),
        cost_usd=storable_cost(result.cost_usd),
        model=result.model,
        prompt_hash=result.prompt_hash,
        focus=result.focus,
        custom_instructions=result.custom_instructions,
        source_hash=result.source_hash,
        duration_ms=result.duration_ms,
        retained={name: value for name, value in asdict(result.retained).items() if value is not None},
        soft_faults=list(result.soft_faults),
        is_wanting=bool(result.soft_faults),
    )
