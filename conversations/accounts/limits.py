"""What a user may take of the models, and whether one more call fits into it. Pure: no clock, no rows.

A call reserves before a model is asked, and is settled when it has ended. Requests count in minutes, of which each
begins with its first request; rebuilds of memory that a user asks for or causes count in hours, likewise; tokens count
in days of UTC, for the day on which their call began. Times are those of one clock, the database's. Should that be set
back, a minute or a day that lies ahead goes on being used up, unless it lies further ahead than one of its kind: then
it was that clock's mistake.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal

Limit = Literal[
    "requests_per_minute",
    "tokens_per_day",
    "streams",
    "readers",
    "resummarize_per_hour",
    "exports",
    "sign_ins",
]

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
SOON = 2
"""Seconds after which to try again what only waits for other calls to end."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one user may take; 0: without limit."""

    requests_per_minute: int = 0
    tokens_per_day: int = 0
    streams: int = 0
    """Calls that are answered at the same time."""
    readers: int = 0
    """Readers of replies that one process serves at the same time, beside the calls that began them."""
    resummarize_per_hour: int = 0
    """Rebuilds of memory, by whatever a user does to cause them."""

    def with_own(
        self,
        requests_per_minute: int | None,
        tokens_per_day: int | None,
        streams: int | None,
        resummarize_per_hour: int | None = None,
    ) -> Limits:
        """These, but for what a user has of their own."""
        own = {
            "requests_per_minute": requests_per_minute,
            "tokens_per_day": tokens_per_day,
            "streams": streams,
            "resummarize_per_hour": resummarize_per_hour,
        }
        return replace(self, **{name: number for name, number in own.items() if number is not None})


@dataclass(frozen=True, slots=True)
class LimitRefusal:
    """Which limit does not let a call in, and in how many seconds it may."""

    limit: Limit
    allowed: int
    retry_after: int


@dataclass(frozen=True, slots=True)
class Window:
    """How many came since the first of them. A minute later, or what else its length is, that is over."""

    since: datetime | None = None
    count: int = 0
    length: timedelta = MINUTE

    def at(self, now: datetime) -> Window:
        """The same, or an empty one that begins now."""
        runs = self.since is not None and -self.length <= now - self.since < self.length
        return self if runs else Window(now, length=self.length)

    def one_more(self) -> Window:
        return replace(self, count=self.count + 1)

    def refusal(self, limit: Limit, allowed: int, now: datetime) -> LimitRefusal | None:
        """Why one more does not fit in, if it does not."""
        if not allowed or self.count < allowed or self.since is None:
            return None
        return LimitRefusal(limit, allowed, _seconds(self.since + self.length - now))


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens of one day: of calls that have ended, and held by those that have not."""

    day: date | None = None
    tokens: int = 0
    reserved: int = 0

    def at(self, now: datetime) -> Spent:
        """The same, or nothing of the day that has begun."""
        today = now.astimezone(UTC).date()
        runs = self.day is not None and timedelta(0) <= self.day - today <= DAY
        return self if runs else Spent(today)

    def and_reserved(self, tokens: int) -> Spent:
        return replace(self, reserved=self.reserved + tokens)

    def refusal(self, allowed: int, tokens: int, now: datetime) -> LimitRefusal | None:
        """Why so many more do not fit in, if they do not."""
        if not allowed or self.tokens + self.reserved + tokens <= allowed or self.day is None:
            return None
        if self.tokens + tokens <= allowed:
            return LimitRefusal("tokens_per_day", allowed, SOON)
        midnight = datetime.combine(self.day + DAY, time(), UTC)
        return LimitRefusal("tokens_per_day", allowed, _seconds(midnight - now))


@dataclass(frozen=True, slots=True)
class Taken:
    """What a user has taken so far."""

    requests: Window = Window()
    spent: Spent = Spent()
    streams: int = 0

    def at(self, now: datetime) -> Taken:
        """The same with the minute and the day of `now`."""
        return replace(self, requests=self.requests.at(now), spent=self.spent.at(now))

    def with_call(self, tokens: int) -> Taken:
        """After one more call, which reserves `tokens`."""
        return Taken(self.requests.one_more(), self.spent.and_reserved(tokens), self.streams + 1)

    def refusal(self, limits: Limits, tokens: int, now: datetime) -> LimitRefusal | None:
        """Why a call that reserves `tokens` does not fit in, if it does not; the longest wait first.

        `self` is `at(now)`.
        """
        full = limits.streams and self.streams >= limits.streams
        return (
            self.spent.refusal(limits.tokens_per_day, tokens, now)
            or self.requests.refusal("requests_per_minute", limits.requests_per_minute, now)
            or (LimitRefusal("streams", limits.streams, SOON) if full else None)
        )


def rebuild_refusal(
    limits: Limits, rebuilds: Window, spent: Spent, tokens: int, now: datetime
) -> LimitRefusal | None:
    """Why one more rebuild of memory does not fit in, if it does not: by the hour's limit, or because not even a call
    of so many tokens fits into the day.

    `rebuilds` (a window of an hour) and `spent` are `at(now)`.
    """
    return spent.refusal(limits.tokens_per_day, tokens, now) or rebuilds.refusal(
        "resummarize_per_hour", limits.resummarize_per_hour, now
    )


def _seconds(wait: timedelta) -> int:
    """Whole seconds until then, for `Retry-After`: at least one."""
    return max(1, math.ceil(wait.total_seconds()))
