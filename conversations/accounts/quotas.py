"""Taking from a user's allowance before a model is asked, and settling when the call has ended.

Exact however many ask at once, in however many processes: whoever takes or settles locks the user's one row, and does
so in the transaction in which the call itself begins or ends. So a call that was refused, or whose begin failed, has
taken nothing; and what a crash leaves is held by a row that somebody finishes (`ActiveReply`), or that expires
(`PassingCall`). Where a chat is locked, too, it is locked first. What fits in is decided by `limits`.
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

from chatmemory.database import trips
from chatmemory.database.compiled import Select
from chatmemory.errors import ChatMemoryError, QuotaExceeded, RateLimited
from chatmemory.llm.protocol import Variant
from conversations.accounts.limits import HOUR, LimitRefusal, Limits, Spent, Taken, Window, rebuild_refusal
from conversations.models import ActiveReply, Allowance, PassingCall, Reserved

logger = logging.getLogger(__name__)

PASSING_MARGIN_SECONDS = 30
"""How much longer than the longest answer a call is held for that is stored nowhere."""

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
# By hand, because every turn runs both: the ORM takes 0.5 ms to write them anew each time (measured).
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
"""Another day has nothing of it."""
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
    """What one call holds of a user's allowance."""

    user_id: int
    tokens: int
    day: date
    minute: datetime | None

    @classmethod
    def of(cls, row: Reserved, user_id: int) -> Reservation | None:
        """What that row holds, None for nothing."""
        if row.reserved_day is None:
            return None
        return cls(user_id, row.reserved_tokens, row.reserved_day, row.reserved_minute)


def held_by(reservation: Reservation | None) -> dict[str, Any]:
    """The fields of a row that holds it."""
    if reservation is None:
        return {}
    return {
        "reserved_tokens": reservation.tokens,
        "reserved_day": reservation.day,
        "reserved_minute": reservation.minute,
    }


def are_on() -> bool:
    """Whether anything is limited. Where nothing is, nothing is counted, nor asked of the database."""
    return bool(settings.RATE_LIMITS)


def tokens_for(prompt_tokens: int, variant: Variant) -> int:
    """What a call is to reserve: its prompt, and as much as its variant may say, or as the settings think it will."""
    return prompt_tokens + (variant.max_output_tokens or settings.LIMIT_OUTPUT_TOKENS_RESERVED)


def read_ahead(user_id: int) -> None:
    """Have read, and locked, what the next `reserve` in this transaction asks for."""
    if are_on():
        _LOCKED.ahead(user_id)


def reserve(user_id: int, tokens: int) -> Reservation | None:
    """Take one call and so many tokens; None where nothing is limited. Raises `RateLimited` and `QuotaExceeded`.

    Runs in the transaction that stores who holds it: without that, it has not happened.
    """
    if not are_on():
        return None
    limits, taken, now = _locked(user_id)
    refusal = taken.refusal(limits, tokens, now)
    if refusal is not None and refusal.limit == "streams":
        # Those of a process that is gone are still counted, but do not keep anybody out.
        refusal = replace(taken, streams=_living(user_id)).refusal(limits, tokens, now)
    if refusal is not None:
        raise refused(refusal, user_id)
    after = taken.with_call(tokens)
    _store(user_id, after)
    assert after.spent.day is not None  # `at` gave it one
    return Reservation(user_id, tokens, after.spent.day, after.requests.since)


def spend(user_id: int, tokens: int) -> None:
    """Count tokens of the day that no call brings: those of a history that is imported. Raises `QuotaExceeded`.

    What is imported is summarized, at somebody's cost. Runs in the transaction that stores it.
    """
    if not are_on():
        return
    limits, taken, now = _locked(user_id)
    if (refusal := taken.spent.refusal(limits.tokens_per_day, tokens, now)) is not None:
        raise refused(refusal, user_id)
    _store(user_id, replace(taken, spent=replace(taken.spent, tokens=taken.spent.tokens + tokens)))


def settle(reservation: Reservation | None, spent: int | None) -> None:
    """Give back what was held and count what was `spent`; None: nothing came of the call, so it counts as not made.

    Runs in the transaction that deletes who held it. Never fails for what it finds: a reply is not lost over its bill.
    """
    if reservation is None:
        return
    row = reservation.user_id
    day = connection.ops.adapt_datefield_value(reservation.day)
    trips.write(_END, (day, reservation.tokens, day, spent or 0, row), changes=Allowance)
    if spent is None:
        same = Allowance.objects.filter(pk=row, minute=reservation.minute)
        same.update(minute_requests=F("minute_requests") - 1)


def begin_passing(user_id: int, tokens: int) -> int:
    """Reserve for a call that is stored nowhere; its row's id. Raises as `reserve` does."""
    lasting = timedelta(seconds=settings.REPLY_DEADLINES.total + PASSING_MARGIN_SECONDS)
    with transaction.atomic():
        held = held_by(reserve(user_id, tokens))
        return PassingCall.objects.create(user_id=user_id, expires_at=Now() + lasting, **held).pk


def end_passing(call_id: int, spent: int | None) -> bool:
    """Settle such a call. False if that was done before."""
    with transaction.atomic():
        call = PassingCall.objects.select_for_update().filter(pk=call_id).first()
        if call is None:
            return False
        call.delete()
        settle(Reservation.of(call, call.user_id), spent)
    return True


def take_export(user_id: int) -> None:
    """Note that a user asks for all that is held about them. Raises `RateLimited` where that was a moment ago."""
    if not are_on():
        return
    seconds = settings.LIMIT_EXPORT_SECONDS
    Allowance.objects.bulk_create([Allowance(user_id=user_id)], ignore_conflicts=True)
    long_ago = Q(exported_at=None) | Q(exported_at__lte=Now() - timedelta(seconds=seconds))
    if not Allowance.objects.filter(long_ago, pk=user_id).update(exported_at=Now()):
        raise refused(LimitRefusal("exports", seconds, seconds), user_id)


def readers_allowed(user_id: int) -> int:
    """How many readers of their replies a user may have in one process; 0: no limit."""
    if not are_on():
        return 0
    own = Allowance.objects.filter(pk=user_id).values_list("readers", flat=True).first()
    return settings.LIMITS.readers if own is None else own


def take_rebuild(user_id: int) -> None:
    """Count a rebuild of memory that a user asks for. Raises `RateLimited`, and `QuotaExceeded` when the day is spent.

    Runs in the transaction in which it is asked for. What it takes is nobody's; so the count is all that bounds it.
    """
    if (refusal := _count_rebuild(user_id)) is not None:
        raise refused(refusal, user_id)


def rebuild_delay(user_id: int) -> int:
    """Count one that a user causes by what is never refused, such as deleting a message; the seconds it is to wait."""
    refusal = _count_rebuild(user_id)
    return 0 if refusal is None else refusal.retry_after


def is_refused(user_id: int) -> bool:
    """Whether the next call of a user would be refused now. Reads alone, and promises nothing."""
    row = Allowance.objects.filter(pk=user_id).annotate(now=Now()).first() if are_on() else None
    if row is None:
        return False
    taken = Taken(Window(row.minute, row.minute_requests), _spent(row), row.open_streams).at(row.now)
    return taken.refusal(_limits(row), settings.LIMIT_OUTPUT_TOKENS_RESERVED, row.now) is not None


@dataclass(frozen=True, slots=True)
class Left:
    """What of a limit is left, until it begins anew in `seconds`."""

    allowed: int
    left: int
    seconds: int


def left_of(user_id: int) -> dict[str, Left]:
    """What a user may still take: `requests` of this minute and `tokens` of this day, where these are limited."""
    if not are_on():
        return {}
    row = Allowance.objects.filter(pk=user_id).annotate(now=Now()).first() or Allowance(user_id=user_id)
    now = getattr(row, "now", None) or timezone.now()
    limits, minute, day = _limits(row), Window(row.minute, row.minute_requests).at(now), _spent(row).at(now)
    begun = minute.since or now
    midnight = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
    of = {
        "requests": (limits.requests_per_minute, minute.count, 60 - (now - begun).total_seconds()),
        "tokens": (limits.tokens_per_day, day.tokens + day.reserved, (midnight - now).total_seconds()),
    }
    return {
        name: Left(allowed, max(0, allowed - taken), max(0, round(seconds)))
        for name, (allowed, taken, seconds) in of.items()
        if allowed
    }


def _count_rebuild(user_id: int) -> LimitRefusal | None:
    """Count it, unless it does not fit in."""
    if not are_on():
        return None
    Allowance.objects.bulk_create([Allowance(user_id=user_id)], ignore_conflicts=True)
    row = Allowance.objects.select_for_update().annotate(now=Now()).get(pk=user_id)
    now, answer = row.now, settings.LIMIT_OUTPUT_TOKENS_RESERVED
    hour = Window(row.hour, row.hour_rebuilds, HOUR).at(now)
    refusal = rebuild_refusal(_limits(row), hour, _spent(row).at(now), answer, now)
    if refusal is None:
        Allowance.objects.filter(pk=user_id).update(hour=hour.since, hour_rebuilds=hour.count + 1)
    return refusal


def _limits(row: Allowance) -> Limits:
    own = (row.requests_per_minute, row.tokens_per_day, row.streams, row.resummarize_per_hour)
    limits: Limits = settings.LIMITS
    return limits.with_own(*own)


def _spent(row: Allowance) -> Spent:
    return Spent(row.day, row.day_tokens, row.day_reserved)


def refund_expired() -> int:
    """Give back what calls hold whose process is gone; how many there were. Called by the sweep."""
    expired = list(PassingCall.objects.filter(expires_at__lt=Now()).values_list("pk", flat=True)[:1000])
    return sum(end_passing(call_id, None) for call_id in expired)


def refused(refusal: LimitRefusal, user_id: int | None = None) -> ChatMemoryError:
    """The error that says so, to be raised; noted in the log."""
    kind = QuotaExceeded if refusal.limit == "tokens_per_day" else RateLimited
    logger.info("refused by a limit", extra={"limit": refusal.limit, "user": user_id})
    return kind(
        _SENTENCES[refusal.limit].format(allowed=f"{refusal.allowed:,}"),
        details={"limit": refusal.limit, "allowed": refusal.allowed},
        retry_after=refusal.retry_after,
    )


def _locked(user_id: int) -> tuple[Limits, Taken, datetime]:
    """The user's limits, what is taken as of now, and now; the row stays locked until the transaction ends."""
    rows = _LOCKED.rows(user_id)
    if not rows:
        Allowance.objects.bulk_create([Allowance(user_id=user_id)], ignore_conflicts=True)
        rows = _LOCKED.rows(user_id)
    *own, minute, requests, day, tokens, reserved, streams, now = rows[0]
    taken = Taken(Window(minute, requests), Spent(day, tokens, reserved), streams)
    return settings.LIMITS.with_own(*own), taken.at(now), now


def _store(user_id: int, taken: Taken) -> None:
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
    trips.write(_TAKE, values, changes=Allowance)


def _living(user_id: int) -> int:
    """Calls of a user that a process is at, as far as anybody knows."""
    replies = ActiveReply.objects.filter(
        chat__owner=user_id, reserved_day__isnull=False, lease_expires_at__gte=Now()
    )
    passing = PassingCall.objects.filter(user=user_id, expires_at__gte=Now())
    return replies.count() + passing.count()
