"""Rebuilding: making a chat's memory anew from its original messages, starting at the first, bite by bite.

Progress is saved in the brief after every bite, so that any worker can continue after a crash; it is discarded if the
epoch changes. The old memory stays in use until the new one replaces it, in one swap and as one revision.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from pydantic import TypeAdapter, ValidationError

from chatmemory.runtime import fault_points
from chatmemory.text.spans import retained
from memory.briefs import Memory, decide_due
from memory.folding import work
from memory.folding.answer_checks import text_of, words_of
from memory.folding.publish import StepOutcome, locked_unchanged, note_success, publish
from memory.folding.summarizer import NO_FAILURES, NOTHING_RETAINED, Folded, FoldRequest, ask_summarizer
from memory.history.rows import each_turn, newest_turns, next_bite, pending_seq
from memory.models import ConversationBrief, Requested, RevisionKind
from memory.policies import POLICIES
from memory.policies.protocol import State


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a rebuild, as stored in `ConversationBrief.rebuild`."""

    epoch: int
    folded: Folded
    of_seq: int = 0
    """Seq of the last message to fold, as of the last bite."""


_STORED = TypeAdapter(Progress)


def rebuild_step(brief: ConversationBrief, *, builtin: bool, timeout: float) -> StepOutcome:
    """Fold the next bite of the chat's rebuild, or publish the rebuild if everything beyond the window is folded.

    It uses the policy set on the chat. A rebuild that nobody requested replaces what the built-in summarizer did, so
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
    newest = newest_turns(brief.chat_id, after, before_seq=pending_seq(brief.chat_id))
    through = memory.through_beyond(newest, after)
    bite = next_bite(brief.chat_id, after, through, settings.MEMORY_LIMITS.bite_tokens)
    if bite is None:
        return _swap(brief, before) if before.turns or brief.head else _change_policy(brief)
    folding = FoldRequest(memory.policy, memory.limits, before, bite)
    folded = ask_summarizer(folding, chat_id=str(brief.chat_id), builtin=builtin, timeout=timeout)
    fault_points.point("fold.answered")
    span = {"from_seq": bite.turns[0].from_seq, "through_seq": bite.turns[-1].through_seq}
    known = before.soft_faults
    faults = (*known, *({**fault, **span} for fault in folded.soft_faults[len(known) :]))
    folded = replace(folded, soft_faults=faults, retained=NOTHING_RETAINED)
    return _keep(brief, Progress(brief.epoch, folded, through), builtin)


def _keep(brief: ConversationBrief, progress: Progress, builtin: bool) -> StepOutcome:
    """Save the progress, if we still hold the lease and the epoch is unchanged."""
    mine = work.held(brief.chat_id, brief.lease_owner).filter(epoch=brief.epoch)
    stored = _STORED.dump_python(progress, mode="json")
    if not mine.update(rebuild=stored, **({} if builtin else NO_FAILURES)):
        return StepOutcome.LOST
    fault_points.point("rebuild.kept")
    return StepOutcome.KEPT


def _swap(brief: ConversationBrief, folded: Folded) -> StepOutcome:
    """Publish the rebuild, with which spans of all the originals it has."""
    turns = each_turn(brief.chat_id, 0, folded.through_seq + 1, text=True)
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
    """None before the first bite."""
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
