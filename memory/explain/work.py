"""The state of work on a chat's memory as shown to clients: since when, and what went wrong. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

WorkPhase = Literal["idle", "queued", "folding", "rebuilding", "waiting", "paused", "no_worker"]


@dataclass(frozen=True, slots=True)
class BriefWork:
    """The work on a chat's memory, as its brief records it."""

    is_wanted: bool
    is_rebuild: bool
    is_leased: bool
    paused_at: datetime | None
    lease_expires_at: datetime | None
    queued_at: datetime | None
    later: datetime | None
    """Nothing is done before this moment, because an attempt failed or the owner made too many requests."""
    attempts: int
    error: str
    """Code of the last error; "" if there was none."""


@dataclass(frozen=True, slots=True)
class WorkNow:
    """A state, since when it has held (None if unknown), the failures in a row, and the last error's code."""

    state: WorkPhase
    since: datetime | None = None
    attempt: int = 0
    error: str | None = None


def work_of(brief: BriefWork, now: datetime, lease: timedelta, *, has_worker: bool) -> WorkNow:
    """Return the state of work at `now`. `lease` is how long a worker holds a chat unless it renews its lease."""
    attempts, error = brief.attempts, brief.error or None
    until = brief.lease_expires_at
    if brief.is_leased and until is not None and until > now:
        state: WorkPhase = "rebuilding" if brief.is_rebuild else "folding"
        return WorkNow(state, min(now, until - lease), attempts, error)
    if not brief.is_wanted:
        is_paused = brief.paused_at is not None
        return WorkNow("paused" if is_paused else "idle", brief.paused_at, attempts, error)
    if brief.later is not None and brief.later > now:
        return WorkNow("waiting", None, attempts, error)
    return WorkNow("queued" if has_worker else "no_worker", brief.queued_at, attempts, error)
