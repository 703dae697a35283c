"""Folding: lease → load → decide → ask → check → compare and swap, repeated while there is work and time; rebuilding
memory batch by batch.

Any failure (two workers, a task that runs twice, a crash at any line) wastes at most a call and never loses a turn:
the cursor moves only in the transaction that stores the summary.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from django.conf import settings
from django.db import transaction
from pydantic import TypeAdapter, ValidationError

from chatmemory import metrics
from chatmemory.database.compiled import Select
from chatmemory.database.owned import ChatKey
from chatmemory.runtime import fault_points, tracing
from chatmemory.text.spans import retained
from memory import queue
from memory.briefs import Memory, decide_due, unfolded_turns
from memory.folding import leases, summarizer
from memory.folding.answer_checks import text_of, words_of
from memory.folding.attempts import NextStep, Work, next_step, tokens_at_once
from memory.folding.publish import StepOutcome, locked_unchanged, note_success, publish, settle
from memory.folding.summarizer import Folded, FoldFailed, FoldRequest, LeaseLost, ask_summarizer
from memory.history.rows import each_turn, newest_turns, next_batch, pending_seq
from memory.history.turns import Batch, Turn
from memory.models import ConversationBrief, Requested, RevisionKind
from memory.policies import POLICIES
from memory.policies.protocol import State

_HELD = Select(lambda chat, user, owner: leases.held_by(ChatKey(chat, user), owner))
GRACE_SECONDS = 5.0
"""Seconds that the last call of a task may take beyond the task's own time."""


@dataclass(slots=True)
class FoldReport:
    """The result of one call of `fold`."""

    outcome: Literal["idle", "done", "waiting", "more"] = "idle"
    """`idle`: no work, or another worker has the chat. `done`: nothing is left. `waiting`: the next attempt waits.

    `more`: time was up, or other chats wait while this work was only demanded by the chat's owner.
    """
    published: int = 0
    batches: int = 0
    """Answers accepted from a summarizer, including the intermediate ones of a rebuild."""
    lost: int = 0
    """Answers dropped because the memory had changed in the meantime."""
    error: str = ""
    """Code of the last failure."""
    was_demanded: bool = False
    stuck: bool = False
    """Even the built-in summarizer failed: the next task tries again."""


@dataclass(frozen=True, slots=True)
class Job:
    """The input of one step: the memory as loaded under its lease, and the batch that is due, if any."""

    memory: Memory
    newest: Sequence[Turn]
    """The newest unfolded turns by which it was decided."""
    step: NextStep
    batch: Batch | None


def fold(chat: ChatKey, *, until: float, tell: Callable[[int], None] = lambda _: None) -> FoldReport:
    """Bring the memory of a chat up to date, until nothing is left to do or `time.monotonic` reaches `until`.

    Must not be called in a transaction. Returns at once if there is no work or another worker has the chat. `tell` is
    called after each step with the number of batches it folded.
    """
    report = FoldReport()
    owner = leases.take(chat)
    if owner is None:
        return report
    is_settled = False
    try:
        fault_points.point("fold.leased")
        is_settled = _work(chat, owner, until, report, tell)
    finally:
        if not is_settled:
            leases.release(chat, owner)
    # A turn that was finished while we held the lease could not queue its task.
    if report.outcome == "done" and not is_settled and leases.ready().filter(**chat.columns).exists():
        report.outcome = "more"
    return report


def _work(chat: ChatKey, owner: str, until: float, report: FoldReport, tell: Callable[[int], None]) -> bool:
    """Work under the lease, and record in `report` what was done. Return whether the last commit gave it back."""
    # A call that is unlikely to end in time is not begun: it needs half of a call's limit, or half of all the time.
    enough = min(settings.SUMMARIZER_TOTAL_SECONDS, until - time.monotonic()) / 2
    while (job := _load(chat, owner)) is not None:
        is_demanded = job.memory.brief.on_demand_at is not None
        report.was_demanded = report.was_demanded or is_demanded
        if job.step.work is Work.NOTHING:
            report.outcome = "done"
            return _settle(job)
        if job.step.work is Work.WAIT or report.stuck:
            report.outcome = "waiting"
            return False
        is_late = (report.batches or report.lost) and until - time.monotonic() < enough
        if is_late or (report.batches and is_demanded and queue.others_wait(chat)):
            report.outcome = "more"
            return False
        batches = report.batches
        fault_points.point("fold.loaded")
        outcome = _take_step(job, until, report)
        tell(report.batches - batches)
        if outcome is StepOutcome.FINISHED:
            report.outcome = "done"
            return True
    return False


def _load(chat: ChatKey, owner: str) -> Job | None:
    """Load the chat's brief and decide the next step. None if the lease was lost, or the chat is gone."""
    brief = _HELD.first(*chat, owner)
    if brief is None:
        return None
    row = ConversationBrief.objects.filter(**chat.columns)
    memory, newest = Memory.of(brief), unfolded_turns(brief)
    after = through = brief.folded_through_seq
    tokens = tokens_at_once(memory.limits.batch_tokens, brief.last_error)
    if brief.requested == Requested.UPDATE:
        through = memory.last_seq_before_window(newest, after)
    elif brief.due and memory.limits.enabled:  # decided by each transaction that changes chat or memory
        through = memory.last_seq_to_fold(newest, after, tokens)
    batch = next_batch(chat, after, through, tokens)
    step = next_step(
        due=batch is not None,
        rebuild_requested=brief.requested == Requested.REBUILD,
        degraded=brief.degraded and not brief.paused_at,
        given_up=brief.attempts >= settings.MEMORY_FOLD_ATTEMPTS,
        waiting=brief.next_attempt_at is not None and not row.filter(leases.ATTEMPT_ALLOWED).exists(),
        delayed=brief.delayed_until is not None and not row.filter(leases.NOT_DELAYED).exists(),
    )
    return Job(memory, newest, step, batch)


def _settle(job: Job) -> bool:
    """Record that nothing is to be done, unless the chat changed. Return whether the lease was given back."""
    with transaction.atomic():
        brief = locked_unchanged(job.memory.brief)
        if brief is None:
            return False
        newest = decide_due(brief)
        if brief.requested == Requested.UPDATE and newest[-1:] == job.newest[-1:]:
            brief.requested = Requested.NOTHING
        is_settled = settle(brief)
        brief.save()
    return is_settled


def _take_step(job: Job, until: float, report: FoldReport) -> StepOutcome:
    left = max(0.0, until - time.monotonic())
    timeout = min(settings.SUMMARIZER_TOTAL_SECONDS, left + GRACE_SECONDS)
    brief, builtin = job.memory.brief, job.step.builtin
    kind = RevisionKind.FOLD if job.step.work is Work.FOLD else RevisionKind.REBUILD
    try:
        with (
            tracing.memory_span("upsert_memory", brief.chat_id),
            summarizer.attempt(brief, kind, builtin=builtin),
            metrics.FOLD.time(),
            metrics.FOLDS_RUNNING.track_inprogress(),
        ):
            if job.batch is not None and kind == RevisionKind.FOLD:
                before = Folded(job.memory.policy.name, job.memory.state)
                folding = FoldRequest(job.memory.policy, job.memory.limits, before, job.batch, lists_statements=True)
                folded = ask_summarizer(folding, chat_id=str(brief.chat_id), builtin=builtin, timeout=timeout)
                fault_points.point("fold.answered")
                outcome = publish(brief, kind, folded)
            else:
                outcome = _rebuild_step(brief, builtin=builtin, timeout=timeout)
    except FoldFailed as failure:
        report.error = failure.code
        report.stuck = builtin
        return StepOutcome.LOST
    except LeaseLost:
        outcome = StepOutcome.LOST
    else:
        if outcome is StepOutcome.LOST and not builtin:  # the upstream has answered, although the answer is dropped
            leases.held_by(brief.chat_key, brief.lease_owner).update(**summarizer.NO_FAILURES)
    metrics.FOLDS.labels(job.memory.policy.name, outcome.value).inc()
    report.lost += outcome is StepOutcome.LOST
    report.batches += outcome is not StepOutcome.LOST
    report.published += outcome in (StepOutcome.PUBLISHED, StepOutcome.FINISHED)
    return outcome


# Rebuilds: memory is made anew from the original messages, batch by batch. Progress is saved in the brief after every
# batch, so that any worker can continue after a crash; it is discarded if the epoch changes. The old memory stays in
# use until the new one replaces it, in one swap and as one revision.


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a rebuild, as stored in `ConversationBrief.rebuild`."""

    epoch: int
    folded: Folded
    of_seq: int = 0
    """Seq of the last message to fold, as of the last batch."""


_STORED = TypeAdapter(Progress)


def _rebuild_step(brief: ConversationBrief, *, builtin: bool, timeout: float) -> StepOutcome:
    """Fold the next batch of the chat's rebuild, or publish the rebuild if everything beyond the window is folded.

    It uses the policy set on the chat. A rebuild without a request replaces the work of the built-in summarizer, so
    progress in which that summarizer took part is discarded. Raises `FoldFailed`.
    """
    recovers = brief.requested != Requested.REBUILD
    saved, policy = _saved(brief), brief.chat.policy
    if saved is None or saved.folded.policy != policy or (recovers and saved.folded.degraded):
        before = Folded(policy, State())
    else:
        before = saved.folded
    after = before.through_seq
    memory = Memory.anew(brief, before.state)
    newest = newest_turns(brief.chat_key, after, before_seq=pending_seq(brief.chat_key))
    through = memory.last_seq_before_window(newest, after)
    tokens = tokens_at_once(memory.limits.batch_tokens, brief.last_error)
    batch = next_batch(brief.chat_key, after, through, tokens)
    if batch is None:
        return _swap(brief, before) if before.turns or brief.head else _change_policy(brief)
    folding = FoldRequest(memory.policy, memory.limits, before, batch)
    folded = ask_summarizer(folding, chat_id=str(brief.chat_id), builtin=builtin, timeout=timeout)
    fault_points.point("fold.answered")
    span = {"from_seq": batch.turns[0].from_seq, "through_seq": batch.turns[-1].through_seq}
    known = before.soft_faults
    faults = (*known, *({**fault, **span} for fault in folded.soft_faults[len(known) :]))
    folded = replace(folded, soft_faults=faults, retained=summarizer.NOTHING_RETAINED)
    return _keep(brief, Progress(brief.epoch, folded, through), builtin)


def _keep(brief: ConversationBrief, progress: Progress, builtin: bool) -> StepOutcome:
    """Save the progress, if we still hold the lease and the epoch is unchanged."""
    mine = leases.held_by(brief.chat_key, brief.lease_owner).filter(epoch=brief.epoch)
    stored = _STORED.dump_python(progress, mode="json")
    if not mine.update(rebuild=stored, **({} if builtin else summarizer.NO_FAILURES)):
        return StepOutcome.LOST
    fault_points.point("rebuild.kept")
    return StepOutcome.KEPT


def _swap(brief: ConversationBrief, folded: Folded) -> StepOutcome:
    """Publish the rebuild, with which spans of all the originals it has."""
    turns = each_turn(brief.chat_key, 0, folded.through_seq + 1, text=True)
    kept = retained((text_of([turn]) for turn in turns), words_of(POLICIES[folded.policy], folded.state))
    return publish(brief, RevisionKind.REBUILD, replace(folded, retained=kept))


def _change_policy(seen: ConversationBrief) -> StepOutcome:
    """Change only the policy: there is nothing to fold and nothing to replace."""
    with transaction.atomic():
        brief = locked_unchanged(seen)
        if brief is None:
            return StepOutcome.LOST
        brief.policy, brief.options = brief.chat.policy, brief.chat.options
        note_success(brief, RevisionKind.REBUILD, degraded=False)
        brief.unpause()
        decide_due(brief)
        brief.save()
    return StepOutcome.KEPT


class RebuildProgress(NamedTuple):
    """A rebuild's progress as shown to users: the last message folded, the last to fold, and turns folded."""

    through_seq: int
    of_seq: int | None
    """None before the first batch."""
    turns: int


def current_progress(brief: ConversationBrief) -> RebuildProgress | None:
    """Return the progress of the chat's rebuild; None if none is running or requested."""
    saved = _saved(brief)
    if saved is not None:
        return RebuildProgress(saved.folded.through_seq, saved.of_seq, saved.folded.turns)
    return RebuildProgress(0, None, 0) if brief.requested == Requested.REBUILD else None


def _saved(brief: ConversationBrief) -> Progress | None:
    """The saved progress; None if the epoch changed since, or if another version of this program wrote it."""
    if not brief.rebuild:
        return None
    try:
        saved = _STORED.validate_python(brief.rebuild)
    except ValidationError:
        return None
    return saved if saved.epoch == brief.epoch else None
