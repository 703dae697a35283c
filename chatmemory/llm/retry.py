"""When to ask an upstream again: retries of background calls, and a circuit breaker for a failing server. Pure.

A retry after a lost answer can be billed twice, and nobody waits for a summary; so there are few, and none that could
not end in time. Interactive calls are never retried. The breaker: after some consecutive failures, no caller asks for
a while. The caller passes in the time, and reports the outcome.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

TRIES = 3
FIRST_PAUSE = 0.5
MAX_PAUSE = 8.0


def pause_before_retry(
    tries: int, *, remaining: float, retry_after: float | None, jitter: float
) -> float | None:
    """Seconds to wait after `tries` failed tries, or None to give up: then, or if that many seconds do not remain.

    `jitter` in 0..1 takes off up to half of the pause, so that workers do not return together.
    """
    if tries >= TRIES:
        return None
    pause = min(FIRST_PAUSE * 2.0 ** (tries - 1), MAX_PAUSE) * (1 - jitter / 2)
    pause = max(pause, retry_after or 0.0)
    return pause if pause < remaining else None


def retry_after_in(headers: Mapping[str, str]) -> float | None:
    """The seconds in `Retry-After`, in ms or in seconds. No server of models is known to name a date instead."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            seconds = float(headers.get(name, "")) * unit
            if seconds >= 0:
                return seconds
    return None


FAILURES = 3
"""Consecutive failures after which a server is not asked for a while."""
REST_SECONDS = 30.0


@dataclass(slots=True)
class Breaker:
    """The state of one server. Times are monotonic seconds. Threads may share it.

    After `FAILURES` consecutive failures, it allows no call for `REST_SECONDS`, and again after each further one.
    """

    failures: int = 0
    rests_until: float = 0.0

    def allows(self, now: float) -> bool:
        """Whether to ask now."""
        return now >= self.rests_until

    def succeeded(self) -> None:
        """Record that the server answered."""
        self.failures = 0

    def failed(self, now: float) -> bool:
        """Record a failure or timeout. Return True if the server rests from now on and did not before."""
        self.failures += 1
        if self.failures >= FAILURES:
            self.rests_until = now + REST_SECONDS
        return self.failures == FAILURES
