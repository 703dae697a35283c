"""What to do next for a chat's memory, which summarizer does it, and how long to wait after a failure. Pure.

Attempts are those made of the upstream since it last answered for this chat. Up to `max_attempts` each waits longer
than the one before, and nothing else is done in between. After that the built-in summarizer does what is due, at
once, and the upstream is asked again whenever its wait is over: a dead upstream costs one call per wait. What the
built-in summarizer did is replaced by a rebuild from the originals as soon as the upstream answers.
"""

from dataclasses import dataclass
from enum import Enum

MAX_BACKOFF_SECONDS = 600.0


class Work(Enum):
    """The next step of a fold."""

    FOLD = "fold"
    REBUILD = "rebuild"
    WAIT = "wait"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class WorkState:
    """The state of work on one chat, from which the next step is decided."""

    due: bool
    """There is something to fold."""
    rebuild_requested: bool
    degraded: bool
    attempts: int
    waiting: bool
    """The time of the next attempt has not come."""
    delayed: bool = False
    """The chat's owner demanded more work than their limits allow: it waits, whichever summarizer would do it."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """The next step, and whether the built-in summarizer takes it."""

    work: Work
    builtin: bool = False


def next_step(standing: WorkState, max_attempts: int) -> NextStep:
    """Return the next step: due turns come first, so that no chat outgrows its budget during a long rebuild."""
    if standing.delayed and (standing.due or standing.rebuild_requested or standing.degraded):
        return NextStep(Work.WAIT)
    given_up = standing.attempts >= max_attempts
    if standing.waiting and not given_up:
        return NextStep(Work.WAIT)
    builtin = given_up and (standing.waiting or not standing.degraded)
    if standing.due:
        return NextStep(Work.FOLD, builtin)
    if standing.rebuild_requested:
        return NextStep(Work.REBUILD, builtin)
    if standing.degraded:
        return NextStep(Work.NOTHING if builtin else Work.REBUILD)
    return NextStep(Work.NOTHING)


def backoff_seconds(attempts: int, first: float) -> float:
    """Return the wait after the `attempts`-th failure in a row: `first` seconds, doubling to 600."""
    doublings = min(max(0, attempts - 1), 32)
    return float(min(first * 2**doublings, MAX_BACKOFF_SECONDS))
