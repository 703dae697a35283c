"""Publishing a summarizer's result: compare and swap on a brief's version and epoch, and write the revision.

Each is one short transaction.
"""

import logging
from datetime import timedelta
from enum import Enum

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from chatmemory import metrics
from chatmemory.database.owned import ChatKey
from chatmemory.errors import NotFound
from chatmemory.llm.protocol import storable_cost
from chatmemory.runtime import fault_points, tracing
from conversations.models import Message
from memory.briefs import decide_due, lock_brief
from memory.folding.attempts import backoff_seconds
from memory.folding.summarizer import Folded
from memory.models import ConversationBrief, Requested, RevisionKind, SummaryRevision
from memory.pins.pins import pin_quoted
from memory.policies import POLICIES
from memory.usage import daily

logger = logging.getLogger(__name__)

MAX_STORED_TOKENS = 2**31 - 1
"""The largest token count that a revision's column can hold: the calls of a long rebuild may add up to more."""


class StepOutcome(Enum):
    """The outcome of a step."""

    PUBLISHED = "published"
    KEPT = "kept"
    """A batch of a rebuild was saved; the rebuild is published as a whole."""
    FINISHED = "finished"
    """Published, and nothing is left to do: the lease is given back."""
    LOST = "lost"
    """The result was dropped, because the memory had changed in the meantime."""


def locked_unchanged(seen: ConversationBrief) -> ConversationBrief | None:
    """Return the brief, locked, if it is still at the version and epoch of `seen`."""
    try:
        brief = lock_brief(seen.chat_key)
    except NotFound:
        return None
    return brief if (brief.version, brief.epoch) == (seen.version, seen.epoch) else None


def publish(seen: ConversationBrief, kind: RevisionKind, folded: Folded) -> StepOutcome:
    """Make `folded` the memory in use, if the brief is still at the version and epoch of `seen`."""
    with transaction.atomic():
        brief = locked_unchanged(seen)
        if brief is None:
            extra = {"chat": str(seen.chat_id), "version": seen.version}
            logger.info("memory fold lost the race", extra=extra)
            return StepOutcome.LOST
        revision = write(brief, kind, folded)
        if folded.statements and kind == RevisionKind.FOLD:
            pin_quoted(revision, folded.statements)
        fault_points.point("publish.stored")
        daily.count_fold(brief.chat, revision)  # last, because all folds of a day lock one row until their commit
    fault_points.point("publish.committed")
    metrics.RETAINED.observe(folded.retained.share)
    logger.info(
        "memory folded",
        extra={
            "chat": str(brief.chat_id),
            "kind": kind.value,
            "version": brief.version,
            "turns": folded.turns,
            "tokens_before": revision.tokens_before,
            "tokens_after": brief.token_count,
            "call_ms": folded.duration_ms,
            "cost_usd": None if folded.cost_usd is None else float(folded.cost_usd),
            "degraded": folded.degraded,
        },
    )
    is_over = not (brief.due or brief.requested or brief.degraded)
    return StepOutcome.FINISHED if is_over else StepOutcome.PUBLISHED


def write(
    brief: ConversationBrief, kind: RevisionKind, folded: Folded, reply: Message | None = None
) -> SummaryRevision:
    """Make `folded`, computed from the current `brief`, the memory in use. Brief and chat must be locked.

    `reply`: its card made it, without a call to the summarizer: records of the summarizer's failures are kept. This
    ends a pause of updates: a person requested the update, or the prompt was full.
    """
    is_rebuild = kind == RevisionKind.REBUILD
    from_seq = 1 if is_rebuild else brief.folded_through_seq + 1
    tokens_before = folded.tokens + (0 if is_rebuild else brief.token_count)
    brief.unpause()
    brief.policy = folded.policy
    brief.global_summary, brief.state = folded.state.summary, folded.state.to_json()
    brief.token_count = POLICIES[folded.policy].size(folded.state)
    brief.kept_percent = round(100 * folded.retained.share) if brief.token_count else None
    if is_rebuild:
        brief.options, brief.folded_tokens = brief.chat.options, folded.tokens
    elif brief.folded_tokens is not None or not brief.folded_through_seq:  # else unknown until a rebuild
        brief.folded_tokens = (brief.folded_tokens or 0) + folded.tokens
    brief.folded_through_seq = folded.through_seq
    # A fold starts from what the state knew, which may include turns that are not folded yet but were part of a card.
    known = (0 if is_rebuild else brief.seen_seq, reply.seq if reply else 0)
    brief.seen_seq = max(folded.through_seq, *known)
    if folded.last_assistant_id or is_rebuild:
        brief.last_summarized_message_id = folded.last_assistant_id
    if reply is None:
        note_success(brief, kind, degraded=folded.degraded)
    decide_due(brief)
    revision = SummaryRevision.add(
        brief,
        kind=kind,
        parent=brief.head or None,
        tokens_before=tokens_before,
        from_seq=from_seq,
        degraded=folded.degraded,
        turns=folded.turns,
        input_tokens=min(folded.usage.input_tokens, MAX_STORED_TOKENS),
        output_tokens=min(folded.usage.output_tokens, MAX_STORED_TOKENS),
        cost_usd=storable_cost(folded.cost_usd),
        model=folded.model,
        prompt_hash=folded.prompt_hash,
        focus=folded.focus,
        custom_instructions=folded.custom_instructions,
        source_hash=folded.source_hash,
        duration_ms=folded.duration_ms,
        retained=folded.retained.listed,
        soft_faults=list(folded.soft_faults),
        is_wanting=bool(folded.soft_faults),
    )
    if kind == RevisionKind.FOLD and not brief.degraded and _has_folded_enough(brief.chat_key):
        brief.requested = Requested.REBUILD
    settle(brief)
    brief.save()
    if tracing.is_on:
        user = tracing.user_hash(brief.owner_id)
        tracing.describe({"user.id": user, "gen_ai.memory.record.id": str(revision.pk)})
        tracing.describe({"chatmemory.policy": brief.policy, "chatmemory.revision": brief.version})
    return revision


def settle(brief: ConversationBrief) -> bool:
    """Give back the lease of a locked `brief` if nothing is left to do, and return whether. Saves nothing."""
    if brief.due or brief.requested:
        return False
    brief.on_demand_at = None
    if brief.degraded:
        return False
    brief.lease_owner, brief.lease_expires_at = "", None
    return True


def _has_folded_enough(chat: ChatKey) -> bool:
    """Whether the setting for it requires a rebuild after this many folds in a row."""
    every = settings.MEMORY_REBUILD_EVERY_FOLDS
    if not every:
        return False
    rows = SummaryRevision.objects.filter(**chat.columns, kind__in=[RevisionKind.FOLD, RevisionKind.REBUILD])
    kinds = list(rows.order_by("-version").values_list("kind", flat=True)[:every])
    return len(kinds) == every and RevisionKind.REBUILD not in kinds


def note_success(brief: ConversationBrief, kind: RevisionKind, *, degraded: bool) -> None:
    """Update the pending work after a success. A success of the upstream clears every failure."""
    if kind == RevisionKind.REBUILD:
        brief.degraded, brief.rebuild = degraded, None
        brief.requested = Requested.NOTHING
    if not degraded:
        brief.attempts, brief.next_attempt_at, brief.last_error = 0, None, None
        return
    brief.degraded = True
    now = timezone.now()
    if brief.next_attempt_at is None or brief.next_attempt_at < now:
        wait = backoff_seconds(brief.attempts, settings.MEMORY_FOLD_BACKOFF_SECONDS)
        brief.next_attempt_at = now + timedelta(seconds=wait)
