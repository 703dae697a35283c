"""Reserve part of a user's allowance before a model is asked, and settle it when the call has ended.

Exact for any number of concurrent calls and processes: reserving and settling lock the user's one row, in the
transaction in which the call itself begins or ends. So a call that was refused, or that failed to begin, uses
nothing. A reservation that a crash leaves behind is held by a row that another process finishes (`ActiveReply`) or
that expires (`PassingCall`). Where a chat is locked as well, it is locked first. What fits is decided by `limits`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory.database import statements
from chatmemory.database.compiled import Select
from chatmemory.errors import ChatMemoryError, QuotaExceeded, RateLimited
from chatmemory.llm.protocol import Variant
from conversations.accounts.limits import (
    HOUR,
    DayTokens,
    LimitRefusal,
    Limits,
    RateWindow,
    UserUsage,
    rebuild_refusal,
)
from conversations.models import ActiveReply, Allowance, PassingCall, Reserved

logger = logging.getLogger(__name__)

PASSING_MARGIN_SECONDS = 30
"""Seconds by which the reservation of a call that is not stored outlives the longest possible answer."""

_LOCKED = Select(
    lambda user: (
        Allowance.objects.select_for_update()
        .filter(pk=user)
        .values_list(
            *("requests_per_minute", "tokens_per_day", "streams"),
            *("minute", "minute_requests", "day", "day_tokens", "day_reserved", "open_streams"),
            Now(),
        )
    ),
    int,
)
# Written by hand, because every turn runs both: the ORM takes 0.5 ms to build them anew each time (measured).
_TABLE = Allowance._meta.db_table
_TAKE = (
    f"UPDATE {_TABLE} SET minute = %s, minute_requests = %s, day = %s, day_tokens = %s, day_reserved = %s, "  # noqa: S608  # our own table's name
    "open_streams = %s WHERE user_id = %s"
)
_END = (
    f"UPDATE {_TABLE} SET open_streams = open_streams - 1, "  # noqa: S608  # as above
    "day_reserved = day_reserved - CASE WHEN day = %s THEN %s ELSE 0 END, "
    "day_tokens = day_tokens + CASE WHEN day = %s THEN %s ELSE 0 END WHERE user_id = %s"
)
"""Settles a call. Tokens are only counted if the row is still at the day on which the call began."""
_SENTENCES = {
    "requests_per_minute": "Rate limit: {allowed} requests per minute.",
    "tokens_per_day": "This would exceed your limit of {allowed} tokens per day.",
    "streams": "Limit reached: {allowed} replies at the same time.",
    "readers": "Limit reached: {allowed} connections following replies at the same time.",
    "resummarize_per_hour": "Rate limit: {allowed} memory rebuilds per hour.",
    "exports": "You can export your data once every {allowed} seconds.",
    "sign_ins": "Too many sign-in attempts.",
}


@dataclass(frozen=True, slots=True)
class Reservation:
    """The part of a user's allowance that one call holds."""

    user_id: int
    tokens: int
    day: date
    minute: datetime | None

    @classmethod
    def of(cls, row: Reserved, user_id: int) -> Reservation | None:
        """Return the reservation that a row holds, or None."""
        if row.reserved_day is None:
            return None
        return cls(user_id, row.reserved_tokens, row.reserved_day, row.reserved_minute)


def reservation_fields(reservation: Reservation | None) -> dict[str, Any]:
    """Return the fields of a row that hold this reservation."""
    if reservation is None:
        return {}
    return {
        "reserved_tokens": reservation.tokens,
        "reserved_day": reservation.day,
        "reserved_minute": reservation.minute,
    }


def enabled() -> bool:
    """Whether limits are on. If not, nothing is counted and no query is made."""
    return bool(settings.RATE_LIMITS)


def tokens_for(prompt_tokens: int, variant: Variant) -> int:
    """Tokens to reserve for a call: its prompt, and its variant's output limit or the setting's estimate."""
    return prompt_tokens + (variant.max_output_tokens or settings.LIMIT_OUTPUT_TOKENS_RESERVED)


def reserve(user_id: int, tokens: int) -> Reservation | None:
    """Reserve one call and `tokens`; return None if limits are off. Raises `RateLimited` and `QuotaExceeded`.

    Call it in the transaction that stores the row which holds the reservation, so that both are stored or neither.
    """
    if not enabled():
        return None
    limits, taken, now = _locked(user_id)
    refusal = taken.refusal(limits, tokens, now)
    if refusal is not None and refusal.limit == "streams":
        # Calls of a process that is gone are still counted, but must not keep anybody out.
        refusal = replace(taken, streams=_living(user_id)).refusal(limits, tokens, now)
    if refusal is not None:
        raise refusal_error(refusal, user_id)
    after = taken.with_call(tokens)
    _store(user_id, after)
    assert after.spent.day is not None  # `at` has set it
    return Reservation(user_id, tokens, after.spent.day, after.requests.since)


def spend(user_id: int, tokens: int) -> None:
    """Count tokens of the day without a call, for a history that is imported. Raises `QuotaExceeded`.

    Imported messages are summarized, which costs somebody money. Call it in the transaction that stores them.
    """
    if not enabled():
        return
    limits, taken, now = _locked(user_id)
    if (refusal := taken.spent.refusal(limits.tokens_per_day, tokens, now)) is not None:
        raise refusal_error(refusal, user_id)
    _store(user_id, replace(taken, spent=replace(taken.spent, tokens=taken.spent.tokens + tokens)))


def settle(reservation: Reservation | None, spent: int | None) -> None:
    """Give back a reservation and count the tokens `spent`; None: the call came to nothing and is not counted.

    Call it in the transaction that deletes the row which held the reservation. It never fails because of the state of
    the allowance: a reply must not be lost over its bill.
    """
    if reservation is None:
        return
    row = reservation.user_id
    day = connection.ops.adapt_datefield_value(reservation.day)
    statements.execute(connection, _END, (day, reservation.tokens, day, spent or 0, row))
    if spent is None:
        same = Allowance.objects.filter(pk=row, minute=reservation.minute)
        same.update(minute_requests=F("minute_requests") - 1)


def count_refused(user_id: int) -> None:
    """Count a request that was refused before it could reserve anything."""
    if not enabled():
        return
    with transaction.atomic():
        _, taken, _ = _locked(user_id)
        _store(user_id, replace(taken, requests=taken.requests.one_more()))


def require_request_left(user_id: int) -> None:
    """Raise `RateLimited` if the user has no request left in this minute. Reads without locking."""
    left = remaining(user_id).get("requests")
    if left is not None and not left.left:
        raise refusal_error(LimitRefusal("requests_per_minute", left.allowed, max(1, left.seconds)), user_id)


def begin_passing(user_id: int, tokens: int) -> int:
    """Reserve for a call that is not stored; return the id of the row that holds it. Raises as `reserve` does."""
    lasting = timedelta(seconds=settings.REPLY_DEADLINES.total + PASSING_MARGIN_SECONDS)
    with transaction.atomic():
        held = reservation_fields(reserve(user_id, tokens))
        return PassingCall.objects.create(user_id=user_id, expires_at=Now() + lasting, **held).pk


def end_passing(call_id: int, spent: int | None) -> bool:
    """Settle a call of `begin_passing`. Return False if that was done before."""
    with transaction.atomic():
        call = PassingCall.objects.select_for_update().filter(pk=call_id).first()
        if call is None:
            return False
        call.delete()
        settle(Reservation.of(call, call.user_id), spent)
    return True


def take_export(user_id: int) -> None:
    """Record that a user exports their data. Raises `RateLimited` if the last export is too recent."""
    if not enabled():
        return
    seconds = settings.LIMIT_EXPORT_SECONDS
    Allowance.objects.bulk_create([Allowance(user_id=user_id)], ignore_conflicts=True)
    long_ago = Q(exported_at=None) | Q(exported_at__lte=Now() - timedelta(seconds=seconds))
    if not Allowance.objects.filter(long_ago, pk=user_id).update(exported_at=Now()):
        raise refusal_error(LimitRefusal("exports", seconds, seconds), user_id)


def readers_allowed(user_id: int) -> int:
    """Return how many readers of replies a user may have in one process; 0 means no limit."""
    if not enabled():
        return 0
    own = Allowance.objects.filter(pk=user_id).values_list("readers", flat=True).first()
    return settings.LIMITS.readers if own is None else own


def take_rebuild(user_id: int) -> None:
    """Count a memory rebuild that a user requests. Raises `RateLimited`, or `QuotaExceeded` for the day's tokens.

    Call it in the transaction that stores the request. A rebuild's own tokens are charged to no user, so this count
    is what limits them.
    """
    if (refusal := _count_rebuild(user_id)) is not None:
        raise refusal_error(refusal, user_id)


def rebuild_delay(user_id: int) -> int:
    """Count a rebuild caused by an action that is never refused (such as a deletion); return seconds to delay it by."""
    refusal = _count_rebuild(user_id)
    return 0 if refusal is None else refusal.retry_after


def is_refused(user_id: int) -> bool:
    """Whether the next call of a user would be refused now. Reads without locking, so the answer may be outdated."""
    row = Allowance.objects.filter(pk=user_id).annotate(now=Now()).first() if enabled() else None
    if row is None:
        return False
    taken = UserUsage(RateWindow(row.minute, row.minute_requests), _spent(row), row.open_streams).at(row.now)
    return taken.refusal(_limits(row), settings.LIMIT_OUTPUT_TOKENS_RESERVED, row.now) is not None


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left of a limit until it resets in `seconds`."""

    allowed: int
    left: int
    seconds: int


def remaining(user_id: int) -> dict[str, Remaining]:
    """Return what a user has left of this minute's `requests` and this day's `tokens`, where these are limited."""
    if not enabled():
        return {}
    row = Allowance.objects.filter(pk=user_id).annotate(now=Now()).first() or Allowance(user_id=user_id)
    now = getattr(row, "now", None) or timezone.now()
    limits, day = _limits(row), _spent(row).at(now)
    minute = RateWindow(row.minute, row.minute_requests).at(now)
    begun = minute.since or now
    midnight = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
    of = {
        "requests": (limits.requests_per_minute, minute.count, 60 - (now - begun).total_seconds()),
        "tokens": (limits.tokens_per_day, day.tokens + day.reserved, (midnight - now).total_seconds()),
    }
    return {
        name: Remaining(allowed, max(0, allowed - taken), max(0, round(seconds)))
        for name, (allowed, taken, seconds) in of.items()
        if allowed
    }


def _count_rebuild(user_id: int) -> LimitRefusal | None:
    """Count a rebuild if it fits; otherwise return the refusal."""
    if not enabled():
        return None
    Allowance.objects.bulk_create([Allowance(user_id=user_id)], ignore_conflicts=True)
    row = Allowance.objects.select_for_update().annotate(now=Now()).get(pk=user_id)
    now, answer = row.now, settings.LIMIT_OUTPUT_TOKENS_RESERVED
    hour = RateWindow(row.hour, row.hour_rebuilds, HOUR).at(now)
    refusal = rebuild_refusal(_limits(row), hour, _spent(row).at(now), answer, now)
    if refusal is None:
        Allowance.objects.filter(pk=user_id).update(hour=hour.since, hour_rebuilds=hour.count + 1)
    return refusal


def _limits(row: Allowance) -> Limits:
    own = (row.requests_per_minute, row.tokens_per_day, row.streams, row.resummarize_per_hour)
    limits: Limits = settings.LIMITS
    return limits.with_overrides(*own)


def _spent(row: Allowance) -> DayTokens:
    return DayTokens(row.day, row.day_tokens, row.day_reserved)


def refund_expired() -> int:
    """Give back the reservations of calls whose process is gone; return how many there were. Called by the sweep."""
    expired = list(PassingCall.objects.filter(expires_at__lt=Now()).values_list("pk", flat=True)[:1000])
    return sum(end_passing(call_id, None) for call_id in expired)


def refusal_error(refusal: LimitRefusal, user_id: int | None = None) -> ChatMemoryError:
    """Log a refusal and return the error to be raised for it."""
    kind = QuotaExceeded if refusal.limit == "tokens_per_day" else RateLimited
    logger.info("refused by a limit", extra={"limit": refusal.limit, "user": user_id})
    return kind(
        _SENTENCES[refusal.limit].format(allowed=f"{refusal.allowed:,}"),
        details={"limit": refusal.limit, "allowed": refusal.allowed},
        retry_after=refusal.retry_after,
    )


def _locked(user_id: int) -> tuple[Limits, UserUsage, datetime]:
    """Lock the user's row until the transaction ends; return the limits, the usage as of now, and now."""
    rows = _LOCKED.rows(user_id)
    if not rows:
        Allowance.objects.bulk_create([Allowance(user_id=user_id)], ignore_conflicts=True)
        rows = _LOCKED.rows(user_id)
    *own, minute, requests, day, tokens, reserved, streams, now = rows[0]
    taken = UserUsage(RateWindow(minute, requests), DayTokens(day, tokens, reserved), streams)
    return settings.LIMITS.with_overrides(*own), taken.at(now), now


def _store(user_id: int, taken: UserUsage) -> None:
    minute, day = taken.requests, taken.spent
    values = (
        connection.ops.adapt_datetimefield_value(minute.since),
        minute.count,
        connection.ops.adapt_datefield_value(day.day),
        day.tokens,
        day.reserved,
        taken.streams,
        user_id,
    )
    statements.execute(connection, _TAKE, values)


def _living(user_id: int) -> int:
    """Count the calls of a user that are still being answered: those with a lease or a row that has not expired."""
    replies = ActiveReply.objects.filter(
        chat__owner=user_id, reserved_day__isnull=False, lease_expires_at__gte=Now()
    )
    passing = PassingCall.objects.filter(user=user_id, expires_at__gte=Now())
    return replies.count() + passing.count()
