"""Whether a user's limits allow one more call, at any time and however the clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.accounts.limits import (
    DAY,
    HOUR,
    MINUTE,
    RETRY_SOON_SECONDS,
    DayTokens,
    LimitRefusal,
    Limits,
    RateWindow,
    UserUsage,
    rebuild_refusal,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 11, 22, tzinfo=UTC)
NONE = Limits()


def taken(
    requests: int = 0, tokens: int = 0, reserved: int = 0, streams: int = 0, now: datetime = NOON
) -> UserUsage:
    return UserUsage(RateWindow(now, requests), DayTokens(now.date(), tokens, reserved), streams)


@pytest.mark.parametrize(
    ("limits", "so_far", "refusal"),
    [
        (NONE, taken(10**6, 10**9, 10**9, 10**6), None),
        (Limits(requests_per_minute=5), taken(requests=4), None),
        (Limits(requests_per_minute=5), taken(requests=5), LimitRefusal("requests_per_minute", 5, 60)),
        (Limits(tokens_per_day=100), taken(tokens=60, reserved=30), None),
        (Limits(tokens_per_day=100), taken(tokens=91), LimitRefusal("tokens_per_day", 100, 12 * 3600)),
        # Tokens reserved by other calls may be released, so a retry is worthwhile.
        (
            Limits(tokens_per_day=100),
            taken(tokens=60, reserved=31),
            LimitRefusal("tokens_per_day", 100, RETRY_SOON_SECONDS),
        ),
        (Limits(streams=2), taken(streams=1), None),
        (Limits(streams=2), taken(streams=2), LimitRefusal("streams", 2, RETRY_SOON_SECONDS)),
        # The longest wait is reported.
        (Limits(1, 100, 1), taken(1, 100, 0, 1), LimitRefusal("tokens_per_day", 100, 12 * 3600)),
        (Limits(1, 0, 1), taken(1, 0, 0, 1), LimitRefusal("requests_per_minute", 1, 60)),
    ],
)
def test_a_call_of_10_tokens_at_noon(limits: Limits, so_far: UserUsage, refusal: LimitRefusal | None) -> None:
    assert so_far.refusal(limits, 10, NOON) == refusal


@pytest.mark.parametrize(
    ("later", "count"),
    [
        (timedelta(0), 3),
        (timedelta(seconds=59.9), 3),
        (MINUTE, 0),
        (DAY, 0),
        # The minute was started by another process's transaction, which began before ours: it is the same minute.
        (-timedelta(seconds=1), 3),
        (-MINUTE, 3),
        # The clock was set back.
        (-timedelta(seconds=61), 0),
    ],
)
def test_a_minute_begins_with_its_first_request(later: timedelta, count: int) -> None:
    assert RateWindow(NOON, 3).at(NOON + later).count == count


@pytest.mark.parametrize(
    ("later", "count"),
    [(MINUTE, 3), (timedelta(seconds=3599), 3), (HOUR, 0), (-HOUR, 3), (-HOUR - MINUTE, 0)],
)
def test_an_hour_is_counted_likewise(later: timedelta, count: int) -> None:
    hour = RateWindow(NOON, 3, HOUR).at(NOON + later)
    assert hour.count == count
    refusal = hour.refusal("resummarize_per_hour", 3, NOON + later)
    left = round((HOUR - later).total_seconds())
    assert refusal == (LimitRefusal("resummarize_per_hour", 3, left) if count else None)


@pytest.mark.parametrize(
    ("limits", "rebuilds", "tokens", "refusal"),
    [
        (NONE, 10**6, 10**9, None),
        (Limits(resummarize_per_hour=2), 1, 0, None),
        (Limits(resummarize_per_hour=2), 2, 0, LimitRefusal("resummarize_per_hour", 2, 3600)),
        (Limits(tokens_per_day=100), 10**6, 90, None),
        (Limits(tokens_per_day=100), 0, 91, LimitRefusal("tokens_per_day", 100, 12 * 3600)),
        # The longest wait is reported.
        (
            Limits(tokens_per_day=100, resummarize_per_hour=2),
            2,
            91,
            LimitRefusal("tokens_per_day", 100, 12 * 3600),
        ),
    ],
)
def test_a_rebuild_at_noon_where_a_call_takes_10_tokens(
    limits: Limits, rebuilds: int, tokens: int, refusal: LimitRefusal | None
) -> None:
    spent = DayTokens(NOON.date(), tokens)
    assert rebuild_refusal(limits, RateWindow(NOON, rebuilds, HOUR), spent, 10, NOON) == refusal


@pytest.mark.parametrize(
    ("later", "tokens"),
    [
        (timedelta(0), 7),
        (12 * HOUR - timedelta(microseconds=1), 7),
        (12 * HOUR, 0),
        (30 * DAY, 0),
        # The clock was set back over midnight: that does not grant a second day.
        (-13 * HOUR, 7),
        (-36 * HOUR, 7),
        # The clock had been set to a distant day: nobody is locked out until that day.
        (-37 * HOUR, 0),
        (-365 * DAY, 0),
    ],
)
def test_a_day_is_one_of_utc(later: timedelta, tokens: int) -> None:
    assert DayTokens(NOON.date(), 7, 2).at(NOON + later).tokens == tokens


def test_a_day_is_one_of_utc_wherever_the_clock_is() -> None:
    tokyo = datetime.fromisoformat("2026-11-22T08:59:59+09:00")
    assert DayTokens(NOON.date(), 7).at(tokyo).tokens == 7
    assert DayTokens(NOON.date(), 7).at(tokyo + timedelta(seconds=1)).tokens == 0


@pytest.mark.parametrize(("before", "seconds"), [(12 * HOUR, 43_200), (timedelta(seconds=0.2), 1)])
def test_it_is_told_when_the_next_day_begins(before: timedelta, seconds: int) -> None:
    now = MIDNIGHT - before
    refusal = DayTokens(now.date(), 100).refusal(100, 1, now)
    assert refusal is not None
    assert refusal.retry_after == seconds


@pytest.mark.parametrize(
    ("own", "limits"),
    [
        ((None, None, None), Limits(1, 2, 3)),
        ((9, None, 0), Limits(9, 2, 0)),
        ((0, 0, 0), NONE),
    ],
)
def test_a_users_own_numbers_come_first(
    own: tuple[int | None, int | None, int | None], limits: Limits
) -> None:
    assert Limits(1, 2, 3).with_overrides(*own) == limits


CALLS = st.lists(st.tuples(st.integers(-90, 90), st.integers(0, 60), st.booleans()), max_size=60)


@given(calls=CALLS, limits=st.builds(Limits, *[st.integers(1, 200)] * 3))
def test_no_limit_is_ever_passed(calls: list[tuple[int, int, bool]], limits: Limits) -> None:
    """Make calls at random times, some of which end at once."""
    so_far, now = UserUsage(), NOON
    for seconds, tokens, ends in calls:
        now += timedelta(seconds=seconds)
        so_far = so_far.at(now)
        if so_far.refusal(limits, tokens, now) is None:
            so_far = so_far.with_call(tokens)
            spent = so_far.spent
            assert so_far.requests.count <= limits.requests_per_minute
            assert spent.tokens + spent.reserved <= limits.tokens_per_day
            assert so_far.streams <= limits.streams
            if ends:
                settled = DayTokens(spent.day, spent.tokens + tokens, spent.reserved - tokens)
                so_far = UserUsage(so_far.requests, settled, so_far.streams - 1)


AHEAD = st.one_of(*(st.timedeltas(-far, far) for far in (2 * MINUTE, 3 * DAY, 400 * DAY)))


@given(ahead=AHEAD, limits=st.builds(Limits, *[st.integers(1, 9)] * 3))
def test_whoever_comes_back_in_time_is_let_in(ahead: timedelta, limits: Limits) -> None:
    """Even if the clock was wrong when the limits were reached, no user has to wait forever."""
    full = taken(limits.requests_per_minute, limits.tokens_per_day, 0, 0, NOON + ahead).at(NOON)
    refusal = full.refusal(limits, 1, NOON)
    if refusal is not None:
        assert 1 <= refusal.retry_after <= 2 * DAY.total_seconds()
        later = NOON + timedelta(seconds=refusal.retry_after)
        again = full.at(later).refusal(limits, 1, later)
        assert again is None or again.limit != refusal.limit
