"""Count events of one kind within a window of time, such as the memory rebuilds of a user in an hour.

Exact for any number of concurrent calls and processes: `take` locks the row of the window until the transaction ends.
A transaction that is undone has counted nothing.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Now

from chatmemory.errors import ChatMemoryError, QuotaExceeded, RateLimited
from conversations.accounts.limits import HOUR, MINUTE, Limit, LimitRefusal, RateWindow
from conversations.models import Window

logger = logging.getLogger(__name__)

_LENGTHS = {
    "resummarize_per_hour": HOUR,
    "exports": timedelta(seconds=settings.LIMIT_EXPORT_SECONDS),
    "sign_ins": MINUTE,
}
_SENTENCES = {
    "requests_per_minute": "Rate limit: {allowed} requests per minute.",
    "tokens_per_day": "This would exceed your limit of {allowed} tokens per day.",
    "streams": "Limit reached: {allowed} replies at the same time.",
    "readers": "Limit reached: {allowed} connections following replies at the same time.",
    "resummarize_per_hour": "Rate limit: {allowed} memory rebuilds per hour.",
    "exports": "You can export your data once every {seconds} seconds.",
    "sign_ins": "Too many sign-in attempts.",
}


def take(kind: Limit, key: object, allowed: int) -> None:
    """Count one event. Raises `RateLimited` if `allowed` are counted in the present window; 0 is no limit.

    Call it in the transaction that does what is counted.
    """
    found = Window.objects.select_for_update().annotate(now=Now()).filter(kind=kind, key=str(key))
    if (row := found.first()) is None:
        Window.objects.bulk_create([Window(kind=kind, key=str(key), since=Now())], ignore_conflicts=True)
        row = found.get()
    window = RateWindow(row.since, row.count, _LENGTHS[kind]).at(row.now)
    if (refusal := window.refusal(kind, allowed, row.now)) is not None:
        raise refusal_error(refusal, key)
    Window.objects.filter(pk=row.pk).update(since=window.since, count=window.count + 1)


def give_back(kind: Limit, key: object) -> None:
    """Uncount an event that came to nothing."""
    Window.objects.filter(kind=kind, key=str(key)).update(count=F("count") - 1)


def refusal_error(refusal: LimitRefusal, key: object = None) -> ChatMemoryError:
    """Log a refusal and return the error to be raised for it."""
    kind = QuotaExceeded if refusal.limit == "tokens_per_day" else RateLimited
    user = None if refusal.limit == "sign_ins" else key
    logger.info("refused by a limit", extra={"limit": refusal.limit, "user": user})
    seconds = settings.LIMIT_EXPORT_SECONDS
    return kind(
        _SENTENCES[refusal.limit].format(allowed=f"{refusal.allowed:,}", seconds=f"{seconds:,}"),
        details={"limit": refusal.limit, "allowed": refusal.allowed},
        retry_after=refusal.retry_after,
    )
