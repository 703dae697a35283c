"""What is happening to a chat's memory: computed here for the API, the admin, the commands and the playground alike.

`work_of` says it of one brief, in a state, a label and a sentence; `CONDITIONS` are the same states as queries. A
chat is in one state at a time. No text of the chat or of an error is part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from memory.briefs import unfolded
from memory.explain.reasons import error_words
from memory.folding import work
from memory.folding.rebuild import RebuildProgress, current_progress
from memory.models import ConversationBrief, Requested
from memory.worker import alive

WorkPhase = Literal["idle", "queued", "folding", "rebuilding", "waiting", "paused", "no_worker"]
Kind = Literal["good", "busy", "paused", "bad"]

NO_WORKER = "No worker is running: start `manage.py worker`."

_WANTED = work.WANTED & work.UNPAUSED
_FAILED = Q(attempts__gt=0, last_error__isnull=False)
"""An attempt is counted before it begins: only an error tells that one has failed."""
_UNTROUBLED = _WANTED & ~_FAILED

CONDITIONS: Final[Mapping[str, Q]] = {
    "failing": _WANTED & _FAILED,
    "rebuild": _UNTROUBLED & (Q(requested=Requested.REBUILD) | ~work.FLAGGED),
    "update": _UNTROUBLED & work.FLAGGED & ~Q(requested=Requested.REBUILD),
    "paused": ~work.FLAGGED & Q(paused_at__isnull=False),
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


def has_worker() -> bool:
    """Whether any worker has answered recently."""
    return alive.problem() is None


def work_of(brief: ConversationBrief | None, *, has_worker: Callable[[], bool] = has_worker) -> MemoryWork:
    """Return the state of the work on `brief`; a chat without messages may have none.

    `has_worker` is called only if a worker is waited for.
    """
    if brief is None:
        return MemoryWork("idle", "Up to date", "Up to date. No summary yet.", "good")
    now = timezone.now()
    is_flagged = brief.due or brief.requested != Requested.NOTHING
    is_wanted = is_flagged or (brief.degraded and brief.paused_at is None)
    is_rebuild = brief.requested == Requested.REBUILD or (is_wanted and not is_flagged)
    state, since = _phase(brief, now, has_worker, is_flagged, is_wanted, is_rebuild)
    if state in ("idle", "paused"):
        label = "Updates paused" if state == "paused" else "Up to date"
        return MemoryWork(state, label, _at_rest(brief), "paused" if state == "paused" else "good", since)
    progress = current_progress(brief)
    last = brief.last_error or {}
    failures = last.get("attempt", brief.attempts) if last and brief.attempts else 0
    error = last.get("code") if failures else None
    told = _sentence(state, brief, now, progress, is_rebuild)
    if failures:
        label = f"Failing ({failures} attempt{'' if failures == 1 else 's'})"
        why = f" {error_words(error)}" if error else ""
        told = f"{failures} failed attempt{'' if failures == 1 else 's'}.{why} {told}"
    else:
        label = _label(state, is_rebuild)
    if brief.degraded:
        told += " Until then, a version by the built-in summarizer is in use."
    kind: Kind = "bad" if failures or state == "no_worker" else "busy"
    begun = progress if progress is not None and progress.of_seq is not None else None
    return MemoryWork(state, label, told, kind, since, failures, error, begun)


def _phase(
    brief: ConversationBrief,
    now: datetime,
    has_worker: Callable[[], bool],
    is_flagged: bool,
    is_wanted: bool,
    is_rebuild: bool,
) -> tuple[WorkPhase, datetime | None]:
    until = brief.lease_expires_at
    if brief.lease_owner and until is not None and until > now:
        length = timedelta(seconds=settings.MEMORY_FOLD_LEASE_SECONDS)
        return "rebuilding" if is_rebuild else "folding", min(now, until - length)
    if not is_wanted:
        return ("paused" if brief.paused_at else "idle"), brief.paused_at
    if _waits_until(brief, now, is_flagged) is not None:
        return "waiting", None
    return ("queued" if has_worker() else "no_worker"), brief.queued_at


def _waits_until(brief: ConversationBrief, now: datetime, is_flagged: bool) -> datetime | None:
    """Until when nothing is done. Once the summarizer was given up, due work does not wait for the next attempt."""
    given_up = is_flagged and brief.attempts >= settings.MEMORY_FOLD_ATTEMPTS
    moments = (brief.delayed_until, None if given_up else brief.next_attempt_at)
    return max((one for one in moments if one is not None and one > now), default=None)


def _label(state: WorkPhase, is_rebuild: bool) -> str:
    match state:
        case "folding":
            return "Updating"
        case "rebuilding":
            return "Rebuilding"
        case _:
            return "Rebuild queued" if is_rebuild else "Update queued"


def _sentence(
    state: WorkPhase,
    brief: ConversationBrief,
    now: datetime,
    progress: RebuildProgress | None,
    is_rebuild: bool,
) -> str:
    how_far = ""
    if progress is not None and progress.of_seq is not None:
        how_far = f": messages 1–{progress.through_seq:,} of {progress.of_seq:,}"
    match state:
        case "folding":
            return "A worker is updating the memory."
        case "rebuilding":
            return f"A worker is rebuilding the memory{how_far or ', starting from the first messages'}."
        case "no_worker":
            return NO_WORKER
        case "waiting":
            is_flagged = brief.due or brief.requested != Requested.NOTHING
            until = _waits_until(brief, now, is_flagged) or now
            wait = _in_words(round((until - now).total_seconds()) + 1)
            if brief.delayed_until is not None and brief.delayed_until == until:
                return f"Rate-limited because of frequent changes; continues in {wait}."
            return f"The next attempt comes in {wait}."
        case _:
            what = (
                f"continue the rebuild{how_far}" if how_far else "rebuild it" if is_rebuild else "update it"
            )
            return f"Waiting for a worker to {what}."


def _at_rest(brief: ConversationBrief) -> str:
    if not brief.head:
        return "Updates are paused." if brief.paused_at else "Up to date. No summary yet."
    if brief.paused_at:
        turns = unfolded(brief).turns
        left = f"{turns:,} turn{'' if turns == 1 else 's'} not summarized"
        return f"Updates are paused: version {brief.head} stays as it is, with {left}."
    return f"Up to date: version {brief.head} is in use."


def _in_words(seconds: int) -> str:
    return (
        f"{seconds} second{'' if seconds == 1 else 's'}"
        if seconds < 120
        else f"{round(seconds / 60)} minutes"
    )
