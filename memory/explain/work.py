"""What is going on with a chat's memory, as clients are told: a state, since when, and what went wrong. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

WorkPhase = Literal["idle", "queued", "folding", "rebuilding", "waiting", "paused", "no_worker"]


@dataclass(frozen=True, slots=True)
class BriefWork:
    """What a brief says of the work on it."""

    is_wanted: bool
    is_rebuild: bool
    is_leased: bool
    paused_at: datetime | None
    lease_expires_at: datetime | None
    queued_at: datetime | None
    later: datetime | None
    """Before this moment nothing is done, because an attempt failed or the owner asked too often."""
    attempts: int
    error: str
    """Code of the last error; "" for none."""


@dataclass(frozen=True, slots=True)
class WorkNow:
    """A state, since when it holds (None: not known), how many attempts failed in a row, and the last one's error."""

    state: WorkPhase
    since: datetime | None = None
    attempt: int = 0
    error: str | None = None


def work_of(brief: BriefWork, now: datetime, lease: timedelta, *, has_worker: bool) -> WorkNow:
    """What is going on at `now`. `lease` is how long a worker holds a chat unless it says more."""
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
