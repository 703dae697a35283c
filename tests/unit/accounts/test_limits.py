"""Whether a user's limits allow one more call, at any time and however the clock changes."""

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
    RateWindow,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("allowed", "spent", "refusal"),
    [
        (0, DayTokens(NOON.date(), 10**9, 10**9), None),
        (100, DayTokens(NOON.date(), 60, 30), None),
        (100, DayTokens(NOON.date(), 91), LimitRefusal("tokens_per_day", 100, 12 * 3600)),
        # Tokens reserved by other calls may be released, so a retry is worthwhile.
        (100, DayTokens(NOON.date(), 60, 31), LimitRefusal("tokens_per_day", 100, RETRY_SOON_SECONDS)),
    ],
)
def test_10_tokens_at_noon(allowed: int, spent: DayTokens, refusal: LimitRefusal | None) -> None:
    assert spent.refusal(allowed, 10, NOON) == refusal


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
    ("later", "tokens"),
    [
        (timedelta(0), 7),
        (12 * HOUR - timedelta(microseconds=1), 7),
        (12 * HOUR, 0),
        (30 * DAY, 0),
        # The clock was set back over midnight: that does not grant a second day.
        (-13 * HOUR, 7),
        (-36 * HOUR, 7),
        # The clock had been set to a distant day: no user is locked out until that day.
        (-37 * HOUR, 0),
        (-365 * DAY, 0),
    ],
)
def test_a_day_is_one_of_utc(later: timedelta, tokens: int) -> None:
    assert DayTokens(NOON.date(), 7, 2).at(NOON + later).tokens == tokens


AHEAD = st.one_of(*(st.timedeltas(-far, far) for far in (2 * MINUTE, 3 * DAY, 400 * DAY)))


@given(ahead=AHEAD, allowed=st.integers(1, 9))
def test_request_after_retry_after_is_let_in(ahead: timedelta, allowed: int) -> None:
    """Even if the clock was wrong when the limits were reached, no user has to wait forever."""
    then = NOON + ahead
    day, minute = DayTokens(then.date(), allowed).at(NOON), RateWindow(then, allowed).at(NOON)
    for refusal in (day.refusal(allowed, 1, NOON), minute.refusal("requests_per_minute", allowed, NOON)):
        if refusal is not None:
            assert 1 <= refusal.retry_after <= 2 * DAY.total_seconds()
            later = NOON + timedelta(seconds=refusal.retry_after)
            again = day.at(later).refusal(allowed, 1, later) or minute.at(later).refusal(
                "requests_per_minute", allowed, later
            )
            assert again is None or again.limit != refusal.limit
