"""Rebuilding: making a chat's memory anew from its original messages, starting at the first, bite by bite.

Progress is saved in the brief after every bite, so that any worker can continue after a crash; it is discarded if the
epoch changes. The old memory stays in use until the new one replaces it, in one swap and as one revision.
"""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass, field, fields, replace
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction

from chatmemory.runtime import fault_points
from chatmemory.text.spans import Retained
from memory.briefs import Memory, decide_due
from memory.folding import lease
from memory.folding.bites import Bite, beyond_window, next_bite
from memory.folding.lease import attempt, reset_failures, store_or_fail
from memory.folding.provenance import RetainedTally, source_hash
from memory.folding.publish import Result, StepOutcome, locked_brief, publish
from memory.folding.summarizer import FoldAnswer, FoldRequest
from memory.history.rows import each_turn, newest_turns, pending_seq
from memory.models import PAUSE, ConversationBrief, Requested, RevisionKind
from memory.policies import get_policy
from memory.policies.protocol import Counts, State

logger = logging.getLogger(__name__)

MOST_FAULTS = 20
"""The most soft faults that a rebuild records; later ones are dropped."""
SURVEY_SECONDS = 30.0
"""Time limit for comparing a rebuilt memory with the originals, so that any chat's rebuild ends within its task."""


def rebuild_step(brief: ConversationBrief, *, builtin: bool, recovers: bool, timeout: float) -> StepOutcome:
    """Fold the next bite of the chat's rebuild, or publish the rebuild if everything beyond the window is folded.

    It uses the policy set on the chat. `recovers`: the rebuild replaces what the built-in summarizer did, so progress
    in which that summarizer took part is discarded. Raises the same errors as `attempt`.
    """
    progress = progress_of(brief, recovers=recovers)
    memory = Memory.anew(brief, State.from_json(progress.summary, progress.state))
    newest = newest_turns(brief.chat_id, progress.through_seq, before_seq=pending_seq(brief.chat_id))
    target = beyond_window(memory, newest, progress.through_seq)
    bite = next_bite(brief.chat_id, progress.through_seq, target)
    if bite is None:
        return _swap(brief, progress) if progress.turns or brief.head else _nothing(brief, progress)
    folding = FoldRequest(memory.policy, memory.state, bite.shown, memory.limits)
    answer = attempt(brief, folding, builtin=builtin, timeout=timeout, kind=RevisionKind.REBUILD)
    if not builtin:
        reset_failures(brief)
    after = _after(progress, bite, answer, target, builtin=builtin)
    return store_or_fail(brief, RevisionKind.REBUILD, lambda: _keep(brief, after))


def _after(progress: Progress, bite: Bite, answer: FoldAnswer, target: int, *, builtin: bool) -> Progress:
    counts, cost = bite.counts, None
    if progress.cost_usd is not None and answer.cost_usd is not None:
        cost = str(Decimal(progress.cost_usd) + answer.cost_usd)
    return replace(
        progress,
        through_seq=bite.turns[-1].through_seq,
        of_seq=target,
        summary=answer.state.summary,
        state=answer.state.to_json(),
        turns=progress.turns + counts.turns,
        tokens=progress.tokens + counts.tokens,
        last_assistant_id=str(bite.last_assistant_id or progress.last_assistant_id),
        source_hash=source_hash(bite.turns, progress.source_hash),
        input_tokens=progress.input_tokens + answer.usage.input_tokens,
        output_tokens=progress.output_tokens + answer.usage.output_tokens,
        cost_usd=cost,
        duration_ms=progress.duration_ms + answer.duration_ms,
        model=answer.model,
        prompt_hash=answer.prompt_hash,
        focus=answer.focus,
        custom_instructions=answer.custom_instructions,
        degraded=progress.degraded or builtin,
        soft_faults=[*progress.soft_faults, *_faults_of(bite, answer)][:MOST_FAULTS],
    )


def _faults_of(bite: Bite, answer: FoldAnswer) -> list[dict[str, Any]]:
    """The defects of the answer to a bite, each with the span of messages it applies to."""
    span = {"from_seq": bite.turns[0].from_seq, "through_seq": bite.turns[-1].through_seq}
    return [{**fault, **span} for fault in answer.soft_faults]


def _keep(brief: ConversationBrief, progress: Progress) -> StepOutcome:
    """Save the progress, if we still hold the lease and the epoch is unchanged."""
    mine = lease.held(brief.chat_id, brief.lease_owner).filter(epoch=brief.epoch)
    if not mine.update(rebuild=asdict(progress)):
        return StepOutcome.LOST
    fault_points.point("rebuild.kept")
    logger.info(
        "memory rebuild progressed",
        extra={
            "chat": str(brief.chat_id),
            "turns": progress.turns,
            "through_seq": progress.through_seq,
            "of_seq": progress.of_seq,
            "call_ms": progress.duration_ms,
        },
    )
    return StepOutcome.KEPT


def _swap(brief: ConversationBrief, progress: Progress) -> StepOutcome:
    state = State.from_json(progress.summary, progress.state)
    result = Result(
        kind=RevisionKind.REBUILD,
        policy=progress.policy,
        state=state,
        degraded=progress.degraded,
        from_seq=1,
        through_seq=progress.through_seq,
        folded=Counts(progress.turns, progress.tokens, 0, 0, 0),
        tokens_before=progress.tokens,
        last_assistant_id=UUID(progress.last_assistant_id) if progress.last_assistant_id else None,
        source_hash=progress.source_hash,
        retained=_retained(brief.chat_id, progress, state),
        input_tokens=progress.input_tokens,
        output_tokens=progress.output_tokens,
        cost_usd=None if progress.cost_usd is None else Decimal(progress.cost_usd),
        model=progress.model,
        prompt_hash=progress.prompt_hash,
        focus=progress.focus,
        custom_instructions=progress.custom_instructions,
        duration_ms=progress.duration_ms,
        soft_faults=progress.soft_faults,
    )
    return store_or_fail(brief, RevisionKind.REBUILD, lambda: publish(brief, result))


def _retained(chat_id: UUID, progress: Progress, state: State) -> Retained:
    """Which spans of the originals the rebuilt state retains, as far as there is time to read them."""
    tally = RetainedTally(get_policy(progress.policy), state)
    deadline = time.monotonic() + SURVEY_SECONDS
    for turn in each_turn(chat_id, 0, progress.through_seq + 1, text=True):
        tally.take([turn])
        if time.monotonic() > deadline and turn.through_seq < progress.through_seq:
            reached = {"through_seq": turn.through_seq, "of_seq": progress.through_seq}
            logger.info("originals not all surveyed", extra={"chat": str(chat_id), **reached})
            return tally.retained(turn.through_seq)
    return tally.retained()


def _nothing(seen: ConversationBrief, progress: Progress) -> StepOutcome:
    """Change only the policy: there is nothing to fold and nothing to replace."""
    with transaction.atomic():
        brief = locked_brief(seen.chat_id)
        if brief is None or (brief.version, brief.epoch) != (seen.version, seen.epoch):
            return StepOutcome.LOST
        brief.policy, brief.requested = progress.policy, Requested.NOTHING
        brief.options = brief.chat.options
        brief.rebuild, brief.degraded = None, False
        brief.unpause()
        decide_due(brief)
        fields = ["policy", "options", "requested", "rebuild", "degraded"]
        brief.save(update_fields=["due", *PAUSE, *fields])
    return StepOutcome.KEPT


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a rebuild, as stored in `ConversationBrief.rebuild`."""

    epoch: int
    policy: str
    through_seq: int = 0
    of_seq: int = 0
    """Seq of the last message to fold, as of the last bite."""
    summary: str = ""
    state: dict[str, Any] = field(default_factory=dict)
    turns: int = 0
    tokens: int = 0
    last_assistant_id: str = ""
    source_hash: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: str | None = "0"
    """A decimal number; None if the price of any bite was unknown."""
    duration_ms: int = 0
    model: str = ""
    prompt_hash: str = ""
    focus: str = ""
    custom_instructions: bool = False
    degraded: bool = False
    soft_faults: list[dict[str, Any]] = field(default_factory=list)


class RebuildProgress(NamedTuple):
    """A rebuild's progress as shown to users: the last message folded, the last to fold, and turns folded."""

    through_seq: int
    of_seq: int | None
    """None before the first bite."""
    turns: int


_FIELDS = {one.name for one in fields(Progress)}


def progress_of(brief: ConversationBrief, *, recovers: bool) -> Progress:
    """Return the saved progress if it is still valid, else a new one.

    `recovers`: progress in which the built-in summarizer took part is not valid.
    """
    fresh = Progress(epoch=brief.epoch, policy=brief.chat.policy)
    saved = _saved(brief)
    if saved is None or saved.policy != fresh.policy or (recovers and saved.degraded):
        return fresh
    return saved


def current_progress(brief: ConversationBrief) -> RebuildProgress | None:
    """Return the progress of the chat's rebuild; None if none is running or requested."""
    saved = _saved(brief)
    if saved is not None:
        return RebuildProgress(saved.through_seq, saved.of_seq, saved.turns)
    return RebuildProgress(0, None, 0) if brief.requested == Requested.REBUILD else None


def _saved(brief: ConversationBrief) -> Progress | None:
    """The saved progress; None if the epoch changed since, or if another version of this program wrote it."""
    stored: dict[str, Any] = brief.rebuild or {}
    saved = Progress(**stored) if stored.keys() == _FIELDS else None
    return saved if saved is not None and saved.epoch == brief.epoch else None
