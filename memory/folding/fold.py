"""Folding: lease → load → decide → ask → check → compare and swap, repeated while there is work and time.

Any failure (two workers, a task that runs twice, a crash at any line) wastes at most a call and never loses a turn:
the cursor moves only in the transaction that stores the summary. `memory.folding.rebuild` does rebuilds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from django.conf import settings
from django.db import transaction

from chatmemory.runtime import fault_points
from memory.briefs import Memory, decide_due, unfolded_turns
from memory.folding import dispatch, lease
from memory.folding.attempts import NextStep, Work, WorkState, next_step
from memory.folding.bites import Bite, beyond_window, next_bite, through_due
from memory.folding.lease import LeaseLost, attempt, reset_failures, store_or_fail
from memory.folding.provenance import retained_in, source_hash
from memory.folding.publish import Result, StepOutcome, locked_brief, publish
from memory.folding.rebuild import rebuild_step
from memory.folding.summarizer import FoldAnswer, FoldFailed, FoldRequest
from memory.history.turns import Turn
from memory.models import Requested, RevisionKind

Outcome = Literal["idle", "nothing", "done", "waiting", "failed", "more"]

GRACE_SECONDS = 5.0
"""Seconds that the last call of a task may take beyond the task's own time."""


@dataclass(slots=True)
class FoldReport:
    """What one call of `fold` did."""

    chat_id: UUID
    outcome: Outcome = "idle"
    """How the call ended.

    `idle`: no work, or another worker has the chat. `nothing`: there was nothing to fold. `done`: nothing is left.
    `failed`: the summarizer failed, the next attempt waits. `waiting`: an earlier failure still waits. `more`: time
    was up, or other chats wait while this work was only demanded by the chat's owner.
    """
    published: int = 0
    """Number of revisions published."""
    bites: int = 0
    """Number of answers accepted from a summarizer, including the intermediate ones of a rebuild."""
    turns: int = 0
    lost: int = 0
    """Number of answers dropped because the memory had changed in the meantime."""
    error: str = ""
    """Code of the last failure."""
    stuck: bool = False
    """Even the built-in summarizer failed: the next task tries again."""

    def add(self, later: FoldReport) -> None:
        """Add what a later call did for the same chat."""
        self.outcome, self.error = later.outcome, later.error or self.error
        self.published += later.published
        self.bites += later.bites
        self.turns += later.turns
        self.lost += later.lost


@dataclass(frozen=True, slots=True)
class Job:
    """The input of one step: the memory as loaded under its lease, and the bite that is due, if any."""

    memory: Memory
    newest: Sequence[Turn]
    """The newest unfolded turns by which it was decided."""
    step: NextStep
    bite: Bite | None


def fold(chat_id: UUID, *, until: float, tell: Callable[[int], None] = lambda _: None) -> FoldReport:
    """Bring the memory of a chat up to date, until nothing is left to do or `time.monotonic` reaches `until`.

    Must not be called in a transaction. Returns at once if there is no work or another worker has the chat. `tell` is
    called after each step with the number of bites it folded.
    """
    report = FoldReport(chat_id)
    owner = lease.take(chat_id)
    if owner is None:
        return report
    try:
        fault_points.point("fold.leased")
        _work(chat_id, owner, until, report, tell)
    finally:
        lease.release(chat_id, owner)
    # A turn that was finished while we held the lease queued its task in vain.
    if report.outcome == "done" and lease.ready().filter(chat_id=chat_id).exists():
        report.outcome = "more"
    return report


def _work(chat_id: UUID, owner: str, until: float, report: FoldReport, tell: Callable[[int], None]) -> None:
    # A call that is unlikely to end in time is not begun: it needs half of a call's limit, or half of all the time.
    enough = min(settings.SUMMARIZER_TOTAL_SECONDS, until - time.monotonic()) / 2
    while (job := _load(chat_id, owner)) is not None:
        if job.step.work is Work.NOTHING:
            _settle(chat_id, job)
            report.outcome = "done" if report.bites else "nothing"
            return
        if job.step.work is Work.WAIT or report.stuck:
            report.outcome = "failed" if report.error else "waiting"
            return
        if (report.bites or report.lost) and until - time.monotonic() < enough:
            report.outcome = "more"
            return
        if report.bites and job.memory.brief.on_demand_at is not None and dispatch.others_wait(chat_id):
            report.outcome = "more"
            return
        bites = report.bites
        fault_points.point("fold.loaded")
        _take_step(job, until, report)
        tell(report.bites - bites)


def _load(chat_id: UUID, owner: str) -> Job | None:
    """Load the chat's brief and decide the next step. None if the lease was lost, or the chat is gone."""
    brief = (
        lease.held(chat_id, owner)
        .select_related("chat")
        .annotate(waits=lease.WAITS, is_delayed=lease.DELAYED)
        .first()
    )
    if brief is None:
        return None
    memory, newest = Memory.of(brief), unfolded_turns(brief)
    bite = _bite_due(memory, newest)
    standing = WorkState(
        due=bite is not None,
        rebuild_requested=brief.requested == Requested.REBUILD,
        degraded=brief.degraded and not brief.paused_at,
        attempts=brief.attempts,
        waiting=bool(brief.waits),
        delayed=brief.is_delayed,
    )
    return Job(memory, newest, next_step(standing, settings.MEMORY_FOLD_ATTEMPTS), bite)


def _bite_due(memory: Memory, newest: Sequence[Turn]) -> Bite | None:
    """The turns to fold now: the oldest that are due, or all beyond the window if an update was requested."""
    after = memory.brief.folded_through_seq
    if memory.brief.requested == Requested.UPDATE:
        target = beyond_window(memory, newest, after)
    elif memory.is_due(newest):
        target = through_due(memory, newest, after)
    else:
        return None
    return next_bite(memory.brief.chat_id, after, target)


def _settle(chat_id: UUID, job: Job) -> None:
    """Record in the brief that nothing is to be done, unless the chat changed since it was loaded."""
    seen = job.memory.brief
    with transaction.atomic():
        brief = locked_brief(chat_id)
        if brief is None or (brief.version, brief.epoch) != (seen.version, seen.epoch):
            return
        newest = decide_due(brief)
        if brief.requested == Requested.UPDATE and newest[-1:] == job.newest[-1:]:
            brief.requested = Requested.NOTHING
        if not (brief.due or brief.requested):
            brief.on_demand_at = None
        brief.save(update_fields=["due", "requested", "on_demand_at"])


def _take_step(job: Job, until: float, report: FoldReport) -> None:
    left = max(0.0, until - time.monotonic())
    timeout = min(settings.SUMMARIZER_TOTAL_SECONDS, left + GRACE_SECONDS)
    try:
        outcome = _step(job, timeout)
    except FoldFailed as failure:
        report.error = failure.code
        report.stuck = job.step.builtin
        return
    except LeaseLost:
        outcome = StepOutcome.LOST
    report.lost += outcome is StepOutcome.LOST
    report.bites += outcome is not StepOutcome.LOST
    report.published += outcome is StepOutcome.PUBLISHED
    if job.bite is not None and job.step.work is Work.FOLD and outcome is StepOutcome.PUBLISHED:
        report.turns += job.bite.counts.turns


def _step(job: Job, timeout: float) -> StepOutcome:
    if job.bite is not None and job.step.work is Work.FOLD:
        return _fold_bite(job.memory, job.bite, builtin=job.step.builtin, timeout=timeout)
    recovers = job.step.work is Work.RECOVER
    return rebuild_step(job.memory.brief, builtin=job.step.builtin, recovers=recovers, timeout=timeout)


def _fold_bite(memory: Memory, bite: Bite, *, builtin: bool, timeout: float) -> StepOutcome:
    """Fold one bite and publish it. Return `LOST` if the memory had changed in the meantime: the answer is dropped."""
    brief = memory.brief
    folding = FoldRequest(memory.policy, memory.state, bite.shown, memory.limits)
    answer = attempt(brief, folding, builtin=builtin, timeout=timeout)
    result = _result(memory, bite, answer, degraded=builtin)
    outcome = store_or_fail(brief, RevisionKind.FOLD, lambda: publish(brief, result))
    if outcome is StepOutcome.LOST and not builtin:
        reset_failures(brief)
    return outcome


def _result(memory: Memory, bite: Bite, answer: FoldAnswer, *, degraded: bool) -> Result:
    brief, counts = memory.brief, bite.counts
    return Result(
        kind=RevisionKind.FOLD,
        policy=brief.policy,
        state=answer.state,
        degraded=degraded,
        from_seq=brief.folded_through_seq + 1,
        through_seq=bite.turns[-1].through_seq,
        folded=counts,
        tokens_before=brief.token_count + counts.tokens,
        last_assistant_id=bite.last_assistant_id,
        source_hash=source_hash(bite.turns),
        retained=retained_in(memory.policy, answer.state, bite.turns),
        input_tokens=answer.usage.input_tokens,
        output_tokens=answer.usage.output_tokens,
        cost_usd=answer.cost_usd,
        model=answer.model,
        prompt_hash=answer.prompt_hash,
        focus=answer.focus,
        custom_instructions=answer.custom_instructions,
        duration_ms=answer.duration_ms,
        soft_faults=answer.soft_faults,
    )
