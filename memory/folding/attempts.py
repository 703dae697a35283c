"""What to do next for a chat's memory, by which summarizer; after a failure how long to wait, and how much smaller the
next request is. Pure.

Attempts are those made of the upstream since it last answered for this chat. The first ones (`MEMORY_FOLD_ATTEMPTS`)
each wait longer than the one before, and nothing else is done in between. After that the built-in summarizer does what
is due, at once, and the upstream is asked again whenever its wait is over: a dead upstream costs one call per wait.
What the built-in summarizer did is replaced by a rebuild from the originals as soon as the upstream answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

MAX_BACKOFF_SECONDS = 600.0
MAX_HALVINGS = 4
"""How often the turns of a request are halved for a summarizer with a small window."""


class Work(Enum):
    """The next step of a fold."""

    FOLD = "fold"
    REBUILD = "rebuild"
    WAIT = "wait"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class NextStep:
    """The next step, and whether the built-in summarizer takes it."""

    work: Work
    builtin: bool = False


def next_step(
    *, due: bool, rebuild_requested: bool, degraded: bool, given_up: bool, waiting: bool, delayed: bool
) -> NextStep:
    """Return the next step: due turns come first, so that no chat outgrows its budget during a long rebuild.

    - `given_up`: all attempts of the upstream failed. `waiting`: the time of its next attempt has not come.
    - `delayed`: the chat's owner demanded more work than their limits allow, so it waits for either summarizer.
    """
    if delayed and (due or rebuild_requested or degraded):
        return NextStep(Work.WAIT)
    if waiting and not given_up:
        return NextStep(Work.WAIT)
    builtin = given_up and (waiting or not degraded)
    if due:
        return NextStep(Work.FOLD, builtin)
    if rebuild_requested:
        return NextStep(Work.REBUILD, builtin)
    if degraded:
        return NextStep(Work.NOTHING if builtin else Work.REBUILD)
    return NextStep(Work.NOTHING)


def tokens_at_once(limit: int, last_error: Mapping[str, Any] | None) -> int:
    """Return the tokens of turns in one request: `limit`, halved by each failed attempt if the last was too long."""
    if last_error is None or last_error["code"] != "context_length_exceeded":
        return limit
    return limit >> min(int(last_error["attempt"]), MAX_HALVINGS)


def backoff_seconds(attempts: int, first: float) -> float:
    """Return the wait after the `attempts`-th failure in a row: `first` seconds, doubling to 600."""
    doublings = min(max(0, attempts - 1), 32)
    return float(min(first * 2**doublings, MAX_BACKOFF_SECONDS))
