"""Tokens and cost: daily figures of the server, and the usage of a user.

Daily figures are kept up to date as work is done, so that nobody has to compute them from the growing tables.

Replies are counted by the sweep, in batches of one transaction each, and not in the turn itself: every turn would
wait for the one row of its day. Each is counted once, however many sweeps run at a time and wherever one is killed,
because it is marked in the transaction that adds it. Folds are counted in the transaction that publishes them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, F, Model, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.utils import timezone

from conversations.models import Message, Role, Status
from memory.models import CardOutcome, ContextRecord, FoldDay, RevisionKind, SummaryRevision, UsageDay
from memory.usage.figures import CountedReply, sums_of

BATCH = 500
"""Replies counted in one transaction."""

_COLUMNS = (
    *("reply__completed_at", "reply__created_at", "reply__model_variant", "reply__status"),
    *("reply__input_tokens", "reply__cached_tokens", "reply__output_tokens", "reply__cost_usd"),
    *("tokens", "history_tokens", "sections", "card"),
)


def today() -> date:
    """The current day in UTC."""
    return timezone.now().astimezone(UTC).date()


def count_replies(seconds: float) -> int:
    """Add uncounted replies to their days' figures, for about `seconds`. Returns how many there were.

    Called by the sweep. On SQLite, which allows one writer, it pauses after each batch for as long as that took.
    """
    until, counted = time.monotonic() + seconds, 0
    while True:
        began = time.monotonic()
        found = _count_batch()
        counted += found
        if found < BATCH or time.monotonic() > until:
            return counted
        if settings.IS_SQLITE:
            time.sleep(time.monotonic() - began)


def count_chat(chat_id: UUID) -> None:
    """Count the uncounted replies of a chat that is being removed.

    Call it in the transaction that removes the chat and has locked it. All rows are locked before the row of any day,
    as in a sweep, to prevent a deadlock.
    """
    rows = _uncounted().filter(reply__chat_id=chat_id)
    if list(rows.select_for_update(of=("self",)).only("pk")):
        _add_up(rows)


def count_fold(revision: SummaryRevision) -> None:
    """Add a revision that a summarizer made."""
    same = ("turns", "input_tokens", "output_tokens", "duration_ms")
    sums = {
        **{name: getattr(revision, name) for name in same},
        "folds": 1,
        "cost_usd": revision.cost_usd or 0,
        "share_sum": revision.retained["share"],
        "degraded": int(revision.degraded),
    }
    _add(FoldDay, {"day": today(), "kind": revision.kind, "policy": revision.policy}, sums)


def count_failure(kind: RevisionKind, policy: str) -> None:
    """Add a failed attempt of a summarizer."""
    _add(FoldDay, {"day": today(), "kind": kind, "policy": policy}, {"failures": 1})


def _uncounted() -> QuerySet[ContextRecord]:
    return ContextRecord.objects.filter(is_counted=False)


def _count_batch() -> int:
    """Add a batch to its days, and mark it. Returns how many replies it had."""
    with transaction.atomic():
        # A concurrent sweep takes the next ones.
        rows = _uncounted().select_for_update(skip_locked=True).order_by("pk")
        ids = list(rows.values_list("pk", flat=True)[:BATCH])
        if ids:
            _add_up(ContextRecord.objects.filter(pk__in=ids))
    return len(ids)


def _add_up(rows: QuerySet[ContextRecord]) -> None:
    """Add `rows`, which must be locked, to their days, and mark them."""
    values = rows.values(*_COLUMNS)
    for (day, variant), sums in sums_of(map(_reply, values)).items():
        _add(UsageDay, {"day": day, "model_variant": variant}, sums)
    rows.update(is_counted=True)


def _reply(row: Mapping[str, Any]) -> CountedReply:
    ended = row["reply__completed_at"] or row["reply__created_at"]
    return CountedReply(
        day=ended.astimezone(UTC).date(),
        variant=row["reply__model_variant"],
        failed=row["reply__status"] == Status.FAILED,
        input_tokens=row["reply__input_tokens"],
        cached_tokens=row["reply__cached_tokens"] or 0,
        output_tokens=row["reply__output_tokens"] or 0,
        cost_usd=row["reply__cost_usd"],
        memory_tokens=row["tokens"],
        history_tokens=row["history_tokens"],
        counted_tokens=_counted(row["sections"]),
        card_kept=_card_kept(row),
    )


def _counted(sections: Sequence[Mapping[str, Any]]) -> int | None:
    if any(section["kind"] == "attachments" for section in sections):
        return None
    return sum(int(section["tokens"]) for section in sections)


def _card_kept(row: Mapping[str, Any]) -> bool | None:
    """Whether the card was kept; None if none was requested, or if the reply was stopped or failed and needs none."""
    is_asked = row["card"] and row["reply__status"] == Status.COMPLETE
    return row["card"] == CardOutcome.KEPT if is_asked else None


def _add(model: type[Model], key: Mapping[str, Any], sums: Mapping[str, Any]) -> None:
    """Add `sums` to the row of `key`, creating it if needed."""
    rows = model._default_manager
    added = {name: F(name) + value for name, value in sums.items()}
    if not rows.filter(**key).update(**added):
        rows.bulk_create([model(**key)], ignore_conflicts=True)
        rows.filter(**key).update(**added)


# The usage of a user

SUMMARIZER = "summarizer"
"""The variant under which folding is listed; its calls count as replies."""

M = TypeVar("M", bound=Model)


def days_of(user: User, since: datetime | None = None, until: datetime | None = None) -> list[dict[str, Any]]:
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
