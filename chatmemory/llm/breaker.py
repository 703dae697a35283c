"""Whether a server that keeps failing is asked again. Pure: the caller tells the time, and what came of asking.

After some failures in a row nobody asks for a while; then one does, for all. If that goes well, everybody does again.
"""

from __future__ import annotations

from dataclasses import dataclass

FAILURES = 3
"""In a row, after which it is left alone."""
REST_SECONDS = 30.0


@dataclass(slots=True)
class Breaker:
    """What is known of one server. Times are monotonic seconds. Threads may share it: at worst, one asks too many."""

    max_failures: int = FAILURES
    rest_seconds: float = REST_SECONDS
    failures: int = 0
    rests_until: float = 0.0

    def allows(self, now: float) -> bool:
        """Whether to ask now. Who is let through when the rest is over keeps the others waiting for the outcome."""
        if self.failures < self.max_failures:
            return True
        if now < self.rests_until:
            return False
        self.rests_until = now + self.rest_seconds
        return True

    def succeeded(self) -> None:
        """It answered."""
        self.failures = 0

    def failed(self, now: float) -> bool:
        """It did not, or too late. True if it is left alone from now on, and was not before."""
        self.failures += 1
        if self.failures >= self.max_failures:
            self.rests_until = now + self.rest_seconds
        return self.failures == self.max_failures
