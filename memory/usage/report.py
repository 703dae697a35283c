"""The usage of a user's chats: tokens and USD, one row per day and model variant, including summaries."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from django.contrib.auth.models import User
from django.db.models import Count, Model, QuerySet, Sum
from django.db.models.functions import TruncDate

from conversations.models import Message, Role
from memory.models import SummaryRevision

SUMMARIZER = "summarizer"
"""The variant under which folding is listed; its calls count as replies."""

M = TypeVar("M", bound=Model)


def days(user: User, since: datetime | None = None, until: datetime | None = None) -> list[dict[str, Any]]:
    """Rows `{"date", "model_variant", "replies", "input_tokens", "cached_tokens", "output_tokens", "cost_usd"}`.

    From `since` on and before `until`, days in UTC, oldest first. `cost_usd` leaves out what has no known price.
    """
    replies = Message.objects.filter(chat__owner=user, role=Role.ASSISTANT, input_tokens__isnull=False)
    folds = SummaryRevision.objects.filter(chat__owner=user, input_tokens__gt=0)
    rows = [
        *_sums(
            _between(replies, "completed_at", since, until), "completed_at", "model_variant", "cached_tokens"
        ),
        *_sums(_between(folds, "created_at", since, until), "created_at"),
    ]
    return sorted(map(_row, rows), key=lambda row: (row["date"], row["model_variant"]))


def _between(rows: QuerySet[M], moment: str, since: datetime | None, until: datetime | None) -> QuerySet[M]:
    if since:
        rows = rows.filter(**{f"{moment}__gte": since})
    return rows.filter(**{f"{moment}__lt": until}) if until else rows


def _sums(rows: QuerySet[M], moment: str, group: str = "", *more: str) -> Any:
    totals = {name: Sum(name) for name in ("input_tokens", "output_tokens", "cost_usd", *more)}
    days = rows.annotate(day=TruncDate(moment)).values("day", *([group] if group else []))
    return days.annotate(count=Count("pk"), **totals).order_by()


def _row(sums: dict[str, Any]) -> dict[str, Any]:
    return {
        "date": sums["day"].isoformat(),
        "model_variant": sums.get("model_variant", SUMMARIZER),
        "replies": sums["count"],
        "input_tokens": sums["input_tokens"],
        "cached_tokens": sums.get("cached_tokens") or 0,
        "output_tokens": sums["output_tokens"] or 0,
        "cost_usd": float(sums["cost_usd"] or 0),
    }
