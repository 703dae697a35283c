"""Watching a cluster of workers: when to send the next canary, and when it has frozen. Pure: no clock, no rows.

At most one canary is outstanding. As long as its number comes back, the cluster is alive. If it does not, it may have
been lost, so another one is sent; or it may wait because all workers are busy, which is no fault. What remains is a
cluster that has idle workers and takes no task, or takes tasks and acknowledges nothing. That state is permanent: it
arises when the process that held the lock of a queue was killed, and only a new cluster helps.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

RESENDS = 3
"""The number of canaries sent within the time that one has to come back."""
LONGEST_PAUSE = 30.0
"""The longest pause, in seconds, between two starts of a cluster that dies at once."""


class LivenessStep(enum.Enum):
    """What to do now."""

    WAIT = "wait"
    SEND = "send"
    MARK_ALIVE = "mark_alive"
    """Record on the cluster's behalf that it is alive: it is too busy to do so itself."""
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class ProbeTimes:
    """Times in seconds: between two canaries, for one to come back, and for the first one of a starting cluster."""

    every: float
    answer: float
    start: float


@dataclass(frozen=True, slots=True)
class Facts:
    """What the tables say about a cluster."""

    done: int
    """Number of the last canary that a worker ran."""
    acknowledged: int
    """Number of the last canary whose result was acknowledged."""
    all_busy: bool
    """Every worker process has a task, none of them for longer than a task may take."""


class LivenessCheck:
    """Decides whether one cluster is alive. All times are of one monotonic clock.

    `look` must be called several times within `ProbeTimes.answer` seconds.
    """

    def __init__(self, patience: ProbeTimes, now: float, facts: Facts) -> None:
        self._patience = patience
        self._facts = facts
        self._is_waiting = False
        self._sent_at = now - patience.every
        self._life = now
        """When the cluster last showed life, or could not have answered: the time limit counts from here."""
        self._looked = now
        self._marked_alive_at = now
        self.is_proven = False
        """Whether this cluster has ever answered."""

    def sent(self, now: float) -> None:
        """Record that a canary was sent."""
        if not self._is_waiting:
            self._life = now
        self._is_waiting, self._sent_at = True, now

    def not_sent(self, now: float) -> None:
        """Record that a canary could not be sent, because the queue is away: the cluster had nothing to answer."""
        self._life = now

    def look(self, now: float, facts: Facts) -> LivenessStep:
        """Update the facts and return the next step."""
        self._take_in(now, facts)
        if not self._is_waiting:
            return LivenessStep.SEND if now - self._sent_at >= self._patience.every else LivenessStep.WAIT
        if facts.all_busy and not self.is_unacknowledged:
            self._life = now
            return self._mark_alive(now)
        answer = self._patience.answer
        if now - self._life >= (answer if self.is_proven else max(answer, self._patience.start)):
            return LivenessStep.REPLACE
        return LivenessStep.SEND if now - self._sent_at >= answer / RESENDS else LivenessStep.WAIT

    @property
    def is_unacknowledged(self) -> bool:
        """Whether a worker ran a canary whose result is not acknowledged yet."""
        return self._facts.done > self._facts.acknowledged

    def _take_in(self, now: float, facts: Facts) -> None:
        was_unacknowledged = self.is_unacknowledged
        if facts.acknowledged > self._facts.acknowledged:
            self._is_waiting, self._life, self.is_proven = False, now, True
        # While nobody could look (no database, a machine that slept), the cluster could not answer either.
        if now - self._looked > self._patience.answer / 2:
            self._life = now
        self._facts, self._looked = facts, now
        if self.is_unacknowledged and not was_unacknowledged:
            self._life = now

    def _mark_alive(self, now: float) -> LivenessStep:
        if now - self._marked_alive_at < self._patience.every:
            return LivenessStep.WAIT
        self._marked_alive_at = now
        return LivenessStep.MARK_ALIVE


def pause_before_start(failures: int) -> float:
    """Seconds to wait before starting the next cluster, after this many in a row that never answered."""
    return 0.0 if failures == 0 else min(LONGEST_PAUSE, 2.0 ** (min(failures, 10) - 1))
