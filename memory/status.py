"""What is happening to a chat's memory: computed here for the API, the admin, the commands and the playground alike.

`work_of` says it of one brief, in a state, a label and a sentence; `CONDITIONS` are the same states as queries. A
chat is in one state at a time. No text of the chat or of an error is part of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from memory.briefs import unfolded
from memory.explain.reasons import error_words
from memory.folding import leases
from memory.folding.fold import RebuildProgress, current_progress
from memory.models import ConversationBrief, Requested
from memory.usage.figures import counted
from memory.worker import alive

WorkPhase = Literal["idle", "queued", "folding", "rebuilding", "waiting", "paused", "no_worker"]
Kind = Literal["good", "busy", "paused", "bad"]

_HAS_WORK = leases.HAS_WORK & leases.UNPAUSED
_FAILED = Q(attempts__gt=0, last_error__isnull=False)
"""An attempt is counted before it begins: only an error tells that one has failed."""
_UNTROUBLED = _HAS_WORK & ~_FAILED

CONDITIONS: Final[Mapping[str, Q]] = {
    "failing": _HAS_WORK & _FAILED,
    "rebuild": _UNTROUBLED & (Q(requested=Requested.REBUILD) | ~leases.FLAGGED),
    "update": _UNTROUBLED & leases.FLAGGED & ~Q(requested=Requested.REBUILD),
    "paused": ~leases.FLAGGED & Q(paused_at__isnull=False),
    "degraded": Q(degraded=True),
}
"""Queries by the names that links and commands use. A brief is in one of the first four states, or is up to date;
`degraded`, made by the built-in summarizer, is besides that."""


@dataclass(frozen=True, slots=True)
class MemoryWork:
    """The state of work on one chat's memory, and the same in words."""

    state: WorkPhase
    label: str
    """A few words, for lists."""
    sentence: str
    kind: Kind
    since: datetime | None = None
    """Since when it has been queued, worked on or paused; None if unknown."""
    attempts: int = 0
    """Failed attempts in a row, of which the last had the `error`."""
    error: str | None = None
    rebuild: RebuildProgress | None = None
    """How far a rebuild is, if one has begun."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return self.state in ("idle", "paused")


def work_of(brief: ConversationBrief | None, *, worker_problem: Callable[[], str | None] = alive.problem) -> MemoryWork:
    """Return the state of the work on `brief`; a chat without messages may have none.

    `worker_problem` is called only if a worker is waited for.
    """
    if brief is None:
        return MemoryWork("idle", "Up to date", "Up to date. No summary yet.", "good")
    now, expires = timezone.now(), brief.lease_expires_at
    is_held = bool(brief.lease_owner) and expires is not None and expires > now
    is_flagged = brief.due or brief.requested != Requested.NOTHING
    has_work = is_flagged or (brief.degraded and brief.paused_at is None)
    if not (is_held or has_work):
        return _at_rest(brief)
    is_rebuild = brief.requested == Requested.REBUILD or (has_work and not is_flagged)
    progress = current_progress(brief)
    rebuild = progress if progress is not None and progress.of_seq is not None else None
    far = f": messages 1–{rebuild.through_seq:,} of {rebuild.of_seq:,}" if rebuild else ""
    label, since = "Rebuild queued" if is_rebuild else "Update queued", None
    state: WorkPhase
    if is_held and expires is not None:
        since = min(now, expires - timedelta(seconds=settings.MEMORY_FOLD_LEASE_SECONDS))
        state, label, sentence = "folding", "Updating", "A worker is updating the memory."
        if is_rebuild:
            sentence = f"A worker is rebuilding the memory{far or ', starting from the first messages'}."
            state, label = "rebuilding", "Rebuilding"
    elif wait := _wait(brief, now, is_flagged):
        state, sentence = "waiting", wait
    elif problem := worker_problem():
        state, since, sentence = "no_worker", brief.queued_at, problem
    else:
        what = f"continue the rebuild{far}" if far else "rebuild it" if is_rebuild else "update it"
        state, since, sentence = "queued", brief.queued_at, f"Waiting for a worker to {what}."
    last = brief.last_error or {}
    failures = last.get("attempt", brief.attempts) if last and brief.attempts else 0
    error = last.get("code") if failures else None
    if failures:
        label = f"Failing ({counted(failures, 'attempt')})"
        sentence = " ".join(
            filter(None, [f"{counted(failures, 'failed attempt')}.", error and error_words(error), sentence])
        )
    if brief.degraded:
        sentence += " Until then, a version by the built-in summarizer is in use."
    kind: Kind = "bad" if failures or state == "no_worker" else "busy"
    return MemoryWork(state, label, sentence, kind, since, failures, error, rebuild)


def _wait(brief: ConversationBrief, now: datetime, is_flagged: bool) -> str:
    """How long nothing is done; "" if there is no wait.

    Once the summarizer was given up, due work does not wait for the next attempt.
    """
    given_up = is_flagged and brief.attempts >= settings.MEMORY_FOLD_ATTEMPTS
    moments = (brief.delayed_until, None if given_up else brief.next_attempt_at)
    until = max((moment for moment in moments if moment is not None and moment > now), default=None)
    if until is None:
        return ""
    seconds = round((until - now).total_seconds()) + 1
    wait = counted(seconds, "second") if seconds < 120 else f"{round(seconds / 60)} minutes"
    if until == brief.delayed_until:
        return f"Rate-limited because of frequent changes; continues in {wait}."
    return f"The next attempt comes in {wait}."


def _at_rest(brief: ConversationBrief) -> MemoryWork:
    if brief.paused_at is None:
        sentence = f"Up to date: version {brief.head} is in use." if brief.head else "Up to date. No summary yet."
        return MemoryWork("idle", "Up to date", sentence, "good")
    sentence = "Updates are paused."
    if brief.head:
        left = counted(unfolded(brief).turns, "turn")
        sentence = f"Updates are paused: version {brief.head} stays as it is, with {left} not summarized."
    return MemoryWork("paused", "Updates paused", sentence, "paused", brief.paused_at)
