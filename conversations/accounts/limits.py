"""Limits on what users and apps do: when a day or a minute begins, and whether one more call fits. Pure: no
clock, no rows.

A call makes a reservation before a model is asked, which is settled when the call has ended. Requests are counted in
one-minute windows, each of which begins with its first request; memory rebuilds that a user requests or causes are
counted the same way in windows of an hour. Tokens are counted by UTC day, on the day their call began. All times come
from one clock, the database's. If that clock is set back, a window or day that begins in the future stays in use,
unless it begins more than one window or day ahead: then it is discarded as an error of the clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
RETRY_SOON_SECONDS = 2
"""`Retry-After` in seconds if a call only has to wait for other calls to end."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one user; 0 means no limit."""

    requests_per_minute: int = 0
    tokens_per_day: int = 0
    streams: int = 0
    """Calls answered at the same time."""
    resummarize_per_hour: int = 0
    """Memory rebuilds, both requested and caused by other actions of the user."""


@dataclass(frozen=True, slots=True)
class LimitRefusal:
    """The limit that refuses a call, and the seconds after which to try again."""

    limit: str
    allowed: int
    retry_after: int


@dataclass(frozen=True, slots=True)
class RateWindow:
    """A count of events since the first of them. It expires after `length`, by default a minute."""

    since: datetime | None = None
    count: int = 0
    length: timedelta = MINUTE

    def at(self, now: datetime) -> RateWindow:
        """Return this window if `now` is within it, else an empty one that begins now."""
        runs = self.since is not None and -self.length <= now - self.since < self.length
        return self if runs else RateWindow(now, length=self.length)

    def refusal(self, limit: str, allowed: int, now: datetime) -> LimitRefusal | None:
        """Return the refusal of one more event, or None if it fits."""
        if not allowed or self.count < allowed or self.since is None:
            return None
        return LimitRefusal(limit, allowed, _seconds(self.since + self.length - now))


@dataclass(frozen=True, slots=True)
class DayTokens:
    """Tokens of one day: `tokens` of calls that have ended, `reserved` by calls that have not."""

    day: date | None = None
    tokens: int = 0
    reserved: int = 0

    def at(self, now: datetime) -> DayTokens:
        """Return this count if its day is not over, else an empty one for the day of `now`."""
        today = now.astimezone(UTC).date()
        runs = self.day is not None and timedelta(0) <= self.day - today <= DAY
        return self if runs else DayTokens(today)

    def refusal(self, allowed: int, tokens: int, now: datetime) -> LimitRefusal | None:
        """Return the refusal of `tokens` more, or None if they fit."""
        if not allowed or self.tokens + self.reserved + tokens <= allowed or self.day is None:
            return None
        if self.tokens + tokens <= allowed:
            return LimitRefusal("tokens_per_day", allowed, RETRY_SOON_SECONDS)
        midnight = datetime.combine(self.day + DAY, time(), UTC)
        return LimitRefusal("tokens_per_day", allowed, _seconds(midnight - now))


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """A user's use of their limits at a moment."""

    limits: Limits
    minute: RateWindow
    day: DayTokens
    open_streams: int
    now: datetime

    def refusal(self, tokens: int) -> LimitRefusal | None:
        """Return the refusal of one more call with `tokens`, usually the one with the longest wait; None if it fits."""
        streams = self.limits.streams
        return (
            self.day.refusal(self.limits.tokens_per_day, tokens, self.now)
            or self.minute.refusal("requests_per_minute", self.limits.requests_per_minute, self.now)
            or (LimitRefusal("streams", streams, RETRY_SOON_SECONDS) if 0 < streams <= self.open_streams else None)
        )


def _seconds(wait: timedelta) -> int:
    """Whole seconds of a wait for `Retry-After`, at least one."""
    return max(1, math.ceil(wait.total_seconds()))
