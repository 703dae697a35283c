"""When to ask an upstream again: retries of background calls, and a breaker for a server that keeps failing. Pure.

A retry after a lost answer can be billed twice, and nobody waits for a summary; so there are few, and none that could
not end in time. The interactive path never retries. The breaker: after some failures in a row nobody asks for a while;
then one does, for all. The caller tells the time, and what came of asking.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

TRIES = 3
FIRST_PAUSE = 0.5
MAX_PAUSE = 8.0


def pause_before_retry(
    tries: int, *, remaining: float, retry_after: float | None, jitter: float
) -> float | None:
    """Seconds to wait after `tries` failed ones, or None to give up.

    Doubles from half a second up to eight; `jitter` in 0..1 takes off up to half of it, so that workers do
    not return together. `retry_after` is a floor. None as well when the pause would leave nothing of the
    `remaining` seconds.
    """
    if tries >= TRIES:
        return None
    pause = min(FIRST_PAUSE * 2.0 ** (tries - 1), MAX_PAUSE) * (1 - jitter / 2)
    pause = max(pause, retry_after or 0.0)
    return pause if pause < remaining else None


def retry_after_in(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds that `Retry-After` asks for: in ms, in seconds, or as a date against `now` (Unix time)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit
    try:
        return max(parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now, 0.0)
    except (ValueError, OverflowError):
        return None


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if number >= 0 else None


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
