"""Reserve part of a user's allowance of tokens before a model is asked, settle it when the call has ended; count
imports, rebuilds and other events of a limit.

Exact for any number of concurrent calls and processes: reserving changes the user's one row only as it was read,
settling changes it by differences, each in the transaction in which the call itself begins or ends. So a call that was
refused, or that failed to begin, uses nothing. A reservation that a crash leaves behind is held by a row that another
process finishes (`ActiveReply`) or that expires (`PassingCall`). Where a chat is locked as well, it is locked first.
Other events, such as the memory rebuilds of an hour, are counted in a row of their own, which `take` locks: a
transaction that is undone has counted nothing. What fits is decided by `limits`.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, time, timedelta
from functools import partial
from threading import Lock
from typing import Any
from weakref import WeakSet

from django.conf import settings
from django.db import transaction
from django.db.models import Case, F, Model, Value, When
from django.db.models.functions import Now
from django.utils import timezone
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from chatmemory.errors import ChatMemoryError, QuotaExceeded, RateLimited
from chatmemory.llm.protocol import Variant
from conversations.accounts.limits import (
    DAY,
    HOUR,
    MINUTE,
    RETRY_SOON_SECONDS,
    DayTokens,
    LimitRefusal,
    Limits,
    LimitUsage,
    RateWindow,
)
from conversations.accounts.models import Allowance, PassingCall, Reserved, Window
from conversations.models import ActiveReply

logger = logging.getLogger(__name__)

_LENGTHS = {"resummarize_per_hour": HOUR, "import_seconds": HOUR, "second_factors": HOUR, "app_tokens": DAY}
"""Lengths of the windows that are not a minute."""
_SENTENCES = {
    "requests_per_minute": "Rate limit: {allowed} requests per minute.",
    "tokens_per_day": "This would exceed your limit of {allowed} tokens per day.",
    "streams": "Limit reached: {allowed} replies at the same time.",
    "readers": "Limit reached: {allowed} connections following replies at the same time.",
    "resummarize_per_hour": "Rate limit: {allowed} memory rebuilds per hour.",
    "writes": "Rate limit: {allowed} changes and searches per minute.",
    "app_streams": "Limit reached: {allowed} replies for this app at the same time.",
    "app_tokens": "Your app has reached its limit of {allowed} tokens per day.",
    "new_end_users": "Rate limit: {allowed} new end users of an app per minute.",
    "import_seconds": "Rate limit: {allowed} seconds of importing per hour.",
    "exports": "You can export your data once a minute.",
    "sign_ins": "Too many sign-in attempts.",
    "second_factors": "Too many wrong codes.",
}
"""All limits, each with the sentence that a refused caller reads."""


def take(kind: str, key: object, allowed: int, count: int = 1) -> None:
    """Count an event, or several. Raises `RateLimited` if `allowed` are counted in the present window; 0 is no limit.

    Call it in the transaction that does what is counted.
    """
    which = _window(kind, key)
    row = _locked(Window(**which, since=Now()), **which)
    window = _window_of(row, kind)
    if (refusal := window.refusal(kind, allowed, row.now)) is not None:
        raise refusal_error(refusal, key)
    Window.objects.filter(**which).update(since=window.since, count=window.count + count)


def take_now(kind: str, key: object, allowed: int, count: int = 1) -> None:
    """The same in a transaction of its own. Nothing is counted without a limit, or if limits are off."""
    if enabled() and allowed:
        with transaction.atomic():
            take(kind, key, allowed, count)


def give_back(kind: str, key: object) -> None:
    """Uncount an event that came to nothing."""
    Window.objects.filter(**_window(kind, key)).update(count=F("count") - 1)


def _window_of(row: Any, kind: str) -> RateWindow:
    return RateWindow(row.since, row.count, _LENGTHS.get(kind, MINUTE)).at(row.now)


def _window(kind: str, key: object) -> dict[str, Any]:
    return {"kind": kind, "key": str(key), "owner_id": key if isinstance(key, int) else 0}


def refusal_error(refusal: LimitRefusal, key: object = None) -> ChatMemoryError:
    """Log a refusal and return the error to be raised for it."""
    kind = QuotaExceeded if refusal.limit in ("tokens_per_day", "app_tokens") else RateLimited
    user = None if refusal.limit == "sign_ins" else key
    logger.info("refused by a limit", extra={"limit": refusal.limit, "user": user})
    return kind(
        _SENTENCES[refusal.limit].format(allowed=f"{refusal.allowed:,}"),
        details={"limit": refusal.limit, "allowed": refusal.allowed},
        retry_after=refusal.retry_after,
    )


UNSTORED_MARGIN_SECONDS = 30
"""Seconds by which the reservation of a call that is not stored outlives the longest possible answer."""


def enabled() -> bool:
    """Whether limits are on. If not, nothing is counted and no query is made."""
    return settings.RATE_LIMITS


def tokens_for(prompt_tokens: int, variant: Variant) -> int:
    """Tokens to reserve for a call: its prompt, and its variant's output limit or the setting's estimate.

    Of a variant and its fallback, the higher limit counts.
    """
    estimate = settings.LIMIT_OUTPUT_TOKENS_RESERVED
    return prompt_tokens + max(one.max_output_tokens or estimate for one in variant.candidates)


_USAGE = ("minute", "minute_requests", "day", "day_tokens", "day_reserved", "open_streams")


def reserve(user_id: int, tokens: int, row: Allowance | None = None, now: datetime | None = None) -> dict[str, Any]:
    """Reserve one call and `tokens`; return the columns of the row that holds the reservation, none if limits are off.

    Call it in the transaction that stores that row. Raises `RateLimited` and `QuotaExceeded`.
    `row` is the user's allowance, if it was just read, and `now` the database's time.
    """
    if not enabled():
        return {}
    is_locked = row is None
    usage = _locked_usage(user_id) if row is None or now is None else _usage(row, now)
    refusal = usage.refusal(tokens)
    # Calls of a process that is gone are still counted as open, but must not keep users out.
    if refusal and (refusal.limit != "streams" or _living(user_id) >= refusal.allowed):
        raise refusal_error(refusal, user_id)
    day, minute = usage.day, usage.minute
    assert day.day is not None  # `at` has set it
    # Not of a locked row: on SQLite, a time that Django did not write equals nothing, and we would try forever.
    as_read = {} if is_locked else {name: getattr(row, name) for name in _USAGE}
    is_reserved = Allowance.objects.filter(pk=user_id, **as_read).update(
        minute=minute.since,
        minute_requests=minute.count + 1,
        day=day.day,
        day_tokens=day.tokens,
        day_reserved=day.reserved + tokens,
        open_streams=usage.open_streams + 1,
    )
    if not is_reserved:  # another call of this user began or ended since
        return reserve(user_id, tokens)
    return {"reserved_tokens": tokens, "reserved_day": day.day, "reserved_minute": minute.since}


def spend(user_id: int, tokens: int) -> None:
    """Count tokens of the day without a call, for a history that is imported. Raises `QuotaExceeded`.

    Imported messages are summarized, which costs money. Call it in the transaction that stores them.
    """
    if enabled():
        usage = _locked_usage(user_id)
        _require_tokens(user_id, usage, tokens)
        Allowance.objects.filter(pk=user_id).update(
            day=usage.day.day, day_tokens=usage.day.tokens + tokens, day_reserved=usage.day.reserved
        )


def settle(user_id: int, held: Reserved, spent: int | None, app_id: int | None = None) -> None:
    """Give back what a row holds and count the tokens `spent`; None: the call came to nothing and is not counted.

    Tokens are only counted if the row is still at the day on which the call began. Call it in the transaction that
    deletes the row which held the reservation. It never fails because of the state of the allowance: a reply must not
    be lost over its bill. Those of an app are counted after it, as calls of all end users meet in one row.
    """
    if held.reserved_day is None:
        return

    def that_day(tokens: int) -> Case:
        return Case(When(day=held.reserved_day, then=Value(tokens)), default=Value(0))

    allowance = Allowance.objects.filter(pk=user_id)
    allowance.update(
        open_streams=F("open_streams") - 1,
        day_reserved=F("day_reserved") - that_day(held.reserved_tokens),
        day_tokens=F("day_tokens") + that_day(spent or 0),
    )
    if spent is None:
        same_minute = allowance.filter(minute=held.reserved_minute)
        same_minute.update(minute_requests=F("minute_requests") - 1)
    if spent and app_id is not None and settings.LIMIT_APP_TOKENS_PER_DAY:
        transaction.on_commit(partial(_count_for_app, app_id, spent), robust=True)


def _count_for_app(app_id: int, tokens: int) -> None:
    running = Window.objects.filter(**_window("app_tokens", app_id), since__gt=Now() - DAY)
    if not running.update(count=F("count") + tokens):
        with transaction.atomic():
            take("app_tokens", app_id, 0, tokens)


class Slot:
    """A call or reader of a user or an app in this process, counted until `close`, or until the object is gone."""

    def __init__(self, kind: str, key: int) -> None:
        self.kind, self.key = kind, key

    def close(self) -> None:
        with _lock:
            _slots.discard(self)


_slots: WeakSet[Slot] = WeakSet()
_lock = Lock()
"""Needed because responses are closed in other threads than the loop's."""


def hold(slot: Slot, allowed: int) -> None:
    """Count a slot. Raises `RateLimited` if this process holds `allowed` of them already; 0 is no limit."""
    with _lock:
        if allowed and sum(one.key == slot.key and one.kind == slot.kind for one in _slots) >= allowed:
            raise refusal_error(LimitRefusal(slot.kind, allowed, RETRY_SOON_SECONDS), slot.key)
        _slots.add(slot)


def take_app_slot(app_id: int | None) -> Slot | None:
    """Count a call that an app or one of its end users begins; None if there is no app.

    Raises `RateLimited`, or `QuotaExceeded` if the app has used up its day.
    """
    if app_id is None or not enabled():
        return None
    if allowed := settings.LIMIT_APP_TOKENS_PER_DAY:
        row = Window.objects.annotate(now=Now()).filter(**_window("app_tokens", app_id)).first()
        if row and (refusal := _window_of(row, "app_tokens").refusal("app_tokens", allowed, row.now)):
            raise refusal_error(refusal, app_id)
    hold(slot := Slot("app_streams", app_id), settings.LIMIT_APP_STREAMS)
    return slot


def count_request(user_id: int) -> None:
    """Count a request that reserves nothing, such as one that was refused before it could."""
    if enabled():
        with transaction.atomic():
            minute = _locked_usage(user_id).minute
            Allowance.objects.filter(pk=user_id).update(minute=minute.since, minute_requests=minute.count + 1)


def require_request_left(user_id: int) -> None:
    """Raise `RateLimited` if the user has no request left in this minute. Reads without locking."""
    if enabled():
        usage = _read(user_id)
        allowed = usage.limits.requests_per_minute
        if refusal := usage.minute.refusal("requests_per_minute", allowed, usage.now):
            raise refusal_error(refusal, user_id)


def begin_unstored(user_id: int, tokens: int, app_id: int | None = None) -> PassingCall:
    """Reserve for a call that is not stored; return the row that holds it. Raises as `reserve` does."""
    lasting = timedelta(seconds=settings.REPLY_DEADLINES.total + UNSTORED_MARGIN_SECONDS)
    slot = take_app_slot(app_id)
    with transaction.atomic():
        held = reserve(user_id, tokens)
        call = PassingCall.objects.create(user_id=user_id, expires_at=Now() + lasting, **held)
    call.slot = slot
    return call


def end_unstored(call: PassingCall, spent: int | None) -> bool:
    """Settle a call of `begin_unstored`. Return False if that was done before."""
    if call.slot:
        call.slot.close()
    with transaction.atomic():
        if not PassingCall.objects.filter(pk=call.pk, user=call.user_id).delete()[0]:
            return False
        settle(call.user_id, call, spent, call.slot.key if call.slot else None)
    return True


def refund_expired() -> int:
    """Give back the reservations of calls whose process is gone; return how many there were. Called by the sweep."""
    expired = list(PassingCall.objects.filter(expires_at__lt=Now())[:1000])
    return sum(end_unstored(call, None) for call in expired)


class LimitWrites(BaseThrottle):
    """Counts calls by other methods than GET, except in views that ask a model: those have limits of their own."""

    def allow_request(self, request: Request, view: object) -> bool:
        if request.user.pk is not None and request.method not in SAFE_METHODS:
            take_write(request.user.pk)
        return True


def take_write(user_id: int) -> None:
    """Count a call that changes something. Raises `RateLimited`."""
    take_now("writes", user_id, settings.LIMIT_WRITES_PER_MINUTE)


def readers_allowed(user_id: int) -> int:
    """Return how many readers of replies a user may have in one process; 0 means no limit."""
    if not enabled():
        return 0
    own = Allowance.objects.filter(pk=user_id).values_list("readers", flat=True).first()
    return settings.LIMIT_READERS if own is None else own


def take_rebuild(user_id: int) -> None:
    """Count a memory rebuild that a user requests. Raises `RateLimited`, or `QuotaExceeded` for the day's tokens.

    Call it in the transaction that stores the request. A rebuild's own tokens are charged to no user, so this count
    is what limits them; it is refused, too, if a call would exceed the limit of the day.
    """
    if enabled():
        usage = _locked_usage(user_id)
        _require_tokens(user_id, usage, settings.LIMIT_OUTPUT_TOKENS_RESERVED)
        take("resummarize_per_hour", user_id, usage.limits.resummarize_per_hour)


def rebuild_delay(user_id: int) -> int:
    """Count a rebuild caused by an action that is never refused (such as a deletion); return seconds to delay it by."""
    try:
        take_rebuild(user_id)
    except (RateLimited, QuotaExceeded) as refused:
        return refused.retry_after or 0
    return 0


def is_refused(user_id: int) -> bool:
    """Whether the next call of a user would be refused now. Reads without locking, so the answer may be outdated."""
    return enabled() and _read(user_id).refusal(settings.LIMIT_OUTPUT_TOKENS_RESERVED) is not None


def remaining(user_id: int) -> dict[str, tuple[int, int, int]]:
    """Return the limits of this minute's `requests` and this day's `tokens`, if any: allowed, left, seconds to go."""
    if not enabled():
        return {}
    usage = _read(user_id)
    limits, day, minute, now = usage.limits, usage.day, usage.minute, usage.now
    midnight = datetime.combine(now.date() + DAY, time(), UTC)
    of = {
        "requests": (limits.requests_per_minute, minute.count, (minute.since or now) + MINUTE - now),
        "tokens": (limits.tokens_per_day, day.tokens + day.reserved, midnight - now),
    }
    return {
        name: (allowed, max(0, allowed - taken), max(0, round(wait.total_seconds())))
        for name, (allowed, taken, wait) in of.items()
        if allowed
    }


def _locked(new: Model, **key: object) -> Any:
    """Lock the row of `key`, which is `new` if there is none, until the transaction ends; return it with `now`."""
    rows = type(new)._default_manager
    found = rows.select_for_update().annotate(now=Now()).filter(**key)
    if (row := found.first()) is None:
        rows.bulk_create([new], ignore_conflicts=True)
        row = found.get()
    return row


def _locked_usage(user_id: int) -> LimitUsage:
    """Lock the user's row until the transaction ends; return what it says."""
    row = _locked(Allowance(pk=user_id), pk=user_id)
    return _usage(row, row.now)


def _read(user_id: int) -> LimitUsage:
    row = Allowance.objects.annotate(now=Now()).filter(pk=user_id).first()
    return _usage(row, row.now) if row else _usage(Allowance(user_id=user_id), timezone.now())


def _usage(row: Allowance, now: datetime) -> LimitUsage:
    usual = {
        "requests_per_minute": settings.LIMIT_REQUESTS_PER_MINUTE,
        "tokens_per_day": settings.LIMIT_TOKENS_PER_DAY,
        "streams": settings.LIMIT_STREAMS,
        "resummarize_per_hour": settings.LIMIT_RESUMMARIZE_PER_HOUR,
    }
    own = {name: number for name in usual if (number := getattr(row, name)) is not None}
    return LimitUsage(
        Limits(**usual | own),
        RateWindow(row.minute, row.minute_requests).at(now),
        DayTokens(row.day, row.day_tokens, row.day_reserved).at(now),
        row.open_streams,
        now,
    )


def _require_tokens(user_id: int, usage: LimitUsage, tokens: int) -> None:
    if refusal := usage.day.refusal(usage.limits.tokens_per_day, tokens, usage.now):
        raise refusal_error(refusal, user_id)


def _living(user_id: int) -> int:
    """Count the calls of a user that are still being answered: those with a lease or a row that has not expired."""
    replies = ActiveReply.objects.filter(owner_id=user_id, reserved_day__isnull=False, lease_expires_at__gte=Now())
    unstored = PassingCall.objects.filter(user=user_id, expires_at__gte=Now())
    return replies.count() + unstored.count()
