"""What a user's chats have cost: tokens and USD, a row a day and model variant, summaries among them."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import TruncDate

from conversations.models import Message, Role
from memory import services as memory


def days(user: User, since: datetime | None = None, until: datetime | None = None) -> list[dict[str, Any]]:
    """Rows `{"date", "model_variant", "replies", "input_tokens", "cached_tokens", "output_tokens", "cost_usd"}`.

    From `since` on and before `until`, days in UTC, oldest first. What folding cost stands under the variant
    `summarizer`, its calls as `replies`. `cost_usd` leaves out what has no known price.
    """
    replies = Message.objects.filter(chat__owner=user, role=Role.ASSISTANT, input_tokens__isnull=False)
    if since:
        replies = replies.filter(completed_at__gte=since)
    if until:
        replies = replies.filter(completed_at__lt=until)
    rows = {(row["day"], row["model_variant"]): row for row in _by_day(replies)}
    rows |= {(row["day"], "summarizer"): row for row in memory.summarizer_usage(user, since, until)}
    return [
        {
            "date": day.isoformat(),
            "model_variant": variant,
            "replies": row["count"],
            "input_tokens": row["input_tokens"],
            "cached_tokens": row["cached_tokens"] or 0,
            "output_tokens": row["output_tokens"] or 0,
            "cost_usd": float(row["cost_usd"] or Decimal(0)),
        }
        for (day, variant), row in sorted(rows.items())
    ]


_SUMS = ("input_tokens", "cached_tokens", "output_tokens", "cost_usd")


def _by_day(replies: QuerySet[Message]) -> Any:
    totals = {name: Sum(name) for name in _SUMS}
    days = replies.annotate(day=TruncDate("completed_at")).values("day", "model_variant")
    return days.annotate(count=Count("id"), **totals).order_by()
