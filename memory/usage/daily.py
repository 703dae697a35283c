"""Tokens and cost: figures of the server by day, of apps and other accounts by month, and the usage of a user; and how
many prompts had a shared pin, or a message of another chat.

Figures are kept up to date as work is done, so that no page computes them from the growing tables.

Replies are counted by the sweep, in batches of one transaction each, and not in the turn itself: every turn would
wait for the one row of its day. Each is counted once, however many sweeps run at a time and wherever one is killed,
because it is marked in the transaction that adds it. Folds are counted in the transaction that publishes them.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Count, Exists, F, Model, OuterRef, QuerySet, Sum, Value
from django.db.models.functions import TruncDate
from django.utils import timezone

from chatmemory.database.owned import ChatKey
from conversations.models import Chat, Message, Role, Status
from memory.models import (
    CardOutcome,
    ContextRecord,
    FoldDay,
    OwnerMonth,
    Pin,
    PinScope,
    RevisionKind,
    ScopedMessage,
    SummaryRevision,
    UsageDay,
)

BATCH = 500
"""Replies counted in one transaction."""
_COUNTING = 0x636F756E74
"""The key of PostgreSQL's lock for it."""

_FIELDS = (
    *("reply__completed_at", "reply__created_at", "reply__model_variant", "reply__status"),
    *("reply__input_tokens", "reply__cached_tokens", "reply__output_tokens", "reply__cost_usd"),
    "reply__token_count",
    *("owner_id", "tokens", "history_tokens", "sections", "card", "reply__chat__owner", "reply__chat__app"),
)
_USED = {
    "pins": F("plan__pins"),
    "elsewhere": F("plan__elsewhere"),
    "shares_pins": Exists(Pin.objects.filter(owner_id=OuterRef("owner_id")).exclude(scope=PinScope.CHAT)),
}
"""Which pins and which messages of other chats a prompt had, and whether its owner has pins of several chats."""
_CALLS = ("replies", "input_tokens", "cached_tokens", "output_tokens", "priced", "cost_usd")
"""The figures of a reply that its account's month has, too."""
_Sums = defaultdict[tuple[tuple[str, Any], ...], Counter[str]]
"""Sums by the names and values of a row's key."""


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
        in_batch = _count_batch()
        counted += in_batch
        if in_batch < BATCH or time.monotonic() > until:
            return counted
        if settings.IS_SQLITE:
            time.sleep(time.monotonic() - began)


def count_chat(chat: ChatKey) -> None:
    """Count the uncounted replies of a chat that is being removed.

    Call it in the transaction that removes the chat and has locked it.
    """
    rows = _uncounted().filter(owner_id=chat.owner_id, reply__in=Message.objects.filter(**chat.columns))
    if rows.exists():
        _count_alone()
        _add_up(rows)


def count_fold(chat: Chat, revision: SummaryRevision) -> None:
    """Add a revision of a chat that a summarizer made."""
    same = ("turns", "input_tokens", "output_tokens", "duration_ms")
    sums = {
        **{name: getattr(revision, name) for name in same},
        "folds": 1,
        "cost_usd": revision.cost_usd or 0,
        "share_sum": revision.retained["share"],
        "degraded": int(revision.degraded),
    }
    calls = {name: sums[name] for name in ("folds", "input_tokens", "output_tokens", "cost_usd")}
    for key in _months_of(chat, today()):
        _add(OwnerMonth, key, {**calls, "priced": int(revision.cost_usd is not None)})
    _add(FoldDay, {"day": today(), "kind": revision.kind, "policy": revision.policy}, sums)


def count_failure(kind: RevisionKind, policy: str) -> None:
    """Add a failed attempt of a summarizer."""
    _add(FoldDay, {"day": today(), "kind": kind, "policy": policy}, {"failures": 1})


def _uncounted() -> QuerySet[ContextRecord]:
    return ContextRecord.objects.filter(is_counted=False)


def _count_batch() -> int:
    """Add a batch to its days, and mark it. Returns how many replies it had."""
    with transaction.atomic():
        _count_alone()
        ids = list(_uncounted().order_by("pk").values_list("pk", flat=True)[:BATCH])
        rows = ContextRecord.objects.filter(pk__in=ids)
        if rows.filter(is_counted=False).update(is_counted=True) < len(ids):
            transaction.set_rollback(True)  # a worker of the version before has counted some of them just now
            return 0
        _add_up(rows)
    return len(ids)


def _count_alone() -> None:
    """Until this transaction ends, no other one counts replies. (SQLite has only one that writes.)

    A database distributed by owner cannot lock the rows of many, so there is one lock for all.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_COUNTING])


def _add_up(rows: QuerySet[ContextRecord]) -> None:
    """Add `rows` to all their figures. The caller counts alone, and marks or deletes them.

    Rows that many others wait for are locked last, each kind in one order, so that two sweeps cannot deadlock.
    """
    owners, apps, days = (_Sums(Counter) for _ in range(3))
    pins, quoted = Counter[tuple[int, str]](), Counter[tuple[int, str, int]]()
    found: Iterable[Any] = rows.select_related("reply__chat").only(*_FIELDS).annotate(**_USED)
    for record in found:
        reply = record.reply
        if record.shares_pins:
            pins.update((record.owner_id, pin) for pin, *_ in record.pins or ())
        for chat, quotes in record.elsewhere or ():
            quoted.update((record.owner_id, chat, seq) for seq in {seq for seq, *_ in quotes})
        day = (reply.completed_at or reply.created_at).astimezone(UTC).date()
        figures = _figures_of(record)
        days[("day", day), ("model_variant", reply.model_variant)].update(figures)
        calls = {name: figures[name] for name in _CALLS if name in figures}
        for month in _months_of(reply.chat, day):
            sums = apps if month["owner_id"] == month["app_id"] else owners
            sums[tuple(month.items())].update(calls)
    _add_uses(pins, quoted)
    for model, sums in ((OwnerMonth, owners), (OwnerMonth, apps), (UsageDay, days)):
        for key in sorted(sums):
            _add(model, dict(key), sums[key])


def _add_uses(pins: Counter[tuple[int, str]], quoted: Counter[tuple[int, str, int]]) -> None:
    """Add how many prompts had pins of several chats, by owner and id, and messages of other chats, by their place."""
    ids, seqs = defaultdict[tuple[int, int], list[str]](list), defaultdict[tuple[int, str, int], list[int]](list)
    for (owner, pin), times in pins.items():
        ids[owner, times].append(pin)
    for (owner, chat, seq), times in quoted.items():
        seqs[owner, chat, times].append(seq)
    for (owner, times), some in sorted(ids.items()):
        rows = Pin.objects.filter(owner_id=owner, pk__in=some).exclude(scope=PinScope.CHAT)
        rows.update(used=F("used") + times)
    for (owner, chat, times), of_chat in sorted(seqs.items()):
        messages = ScopedMessage.objects.filter(owner_id=owner, chat_id=chat, seq__in=of_chat)
        messages.update(used=F("used") + times)


def _months_of(chat: Chat, day: date) -> list[dict[str, Any]]:
    """The keys of the months that the calls for a chat on one day belong to: its owner's, then its app's."""
    owners = dict.fromkeys((chat.owner_id, chat.app_id or chat.owner_id))
    return [{"month": day.replace(day=1), "owner_id": owner, "app_id": chat.app_id} for owner in owners]


def _figures_of(record: ContextRecord) -> dict[str, Any]:
    """The figures that one reply adds to the row of its day, by column. Unknown values are skipped."""
    reply = record.reply
    has_failed = reply.status == Status.FAILED
    figures: dict[str, Any] = {"replies": 1, "failed": int(has_failed)}
    counted = sum(section["tokens"] for section in record.sections)
    if reply.input_tokens is not None:
        figures |= {
            "billed": 1,
            "input_tokens": reply.input_tokens,
            "cached_tokens": reply.cached_tokens or 0,
            "output_tokens": reply.output_tokens or 0,
        }
        if all(section["kind"] != "attachments" for section in record.sections):
            figures |= {"counted_tokens": counted, "counted_billed": reply.input_tokens}
    elif not has_failed:
        figures |= {"input_tokens": counted, "output_tokens": reply.token_count}
    if reply.cost_usd is not None:
        figures |= {"priced": 1, "cost_usd": reply.cost_usd}
    if record.card and reply.status == Status.COMPLETE:  # a reply that was stopped or failed needs no card
        figures |= {"cards": 1, "cards_kept": int(record.card == CardOutcome.KEPT)}
    if not has_failed and record.history_tokens is not None:
        figures |= {
            "compared": 1,
            "history_tokens": record.history_tokens,
            "memory_tokens": record.tokens,
            "saved_tokens": max(0, record.history_tokens - record.tokens),
        }
    return figures


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


def days_of(user: User, since: datetime | None = None, until: datetime | None = None) -> list[dict[str, Any]]:
    """Rows as of `UsageDayOut`, from `since` on and before `until`, days in UTC, oldest first.

    `cost_usd` leaves out what has no known price. `estimated` replies have no usage: their tokens are our count.
    """
    replies = Message.objects.filter(owner_id=user.pk, role=Role.ASSISTANT, input_tokens__isnull=False)
    folds = SummaryRevision.objects.filter(owner_id=user.pk, input_tokens__gt=0)
    totals = {name: Sum(name) for name in ("input_tokens", "output_tokens", "cost_usd")}
    kinds: tuple[tuple[QuerySet[Any], str, Any, Any], ...] = (
        (replies, "completed_at", F("model_variant"), Sum("cached_tokens")),
        (folds, "created_at", Value(SUMMARIZER), Value(0)),
    )
    rows = defaultdict[tuple[date, str], Counter[str]](Counter)
    for calls, moment, variant, cached in kinds:
        days = _between(calls, moment, since, until).values(day=TruncDate(moment), variant=variant).order_by()
        for row in days.annotate(replies=Count("pk"), cached_tokens=cached, **totals):
            key = row.pop("day"), row.pop("variant")
            rows[key].update({name: value or 0 for name, value in row.items()})
    moment = "reply__completed_at"
    unbilled = ContextRecord.objects.filter(owner_id=user.pk, reply__input_tokens__isnull=True)
    ended = _between(unbilled, moment, since, until).exclude(reply__status=Status.FAILED)
    fields = (TruncDate(moment), "reply__model_variant", "reply__token_count", "sections")
    for day, variant, written, sections in ended.exclude(**{moment: None}).values_list(*fields).iterator():
        sent = sum(section["tokens"] for section in sections)
        rows[day, variant].update(replies=1, estimated=1, input_tokens=sent, output_tokens=written)
    names = ("replies", "input_tokens", "cached_tokens", "output_tokens")
    return [
        {"date": day.isoformat(), "model_variant": variant}
        | {name: row[name] for name in names}
        | {"cost_usd": float(row["cost_usd"])}
        | ({"estimated": row["estimated"]} if row["estimated"] else {})
        for (day, variant), row in sorted(rows.items())
    ]


def _between(calls: QuerySet[Any], moment: str, since: datetime | None, until: datetime | None) -> QuerySet[Any]:
    calls = calls.filter(**{f"{moment}__gte": since}) if since else calls
    return calls.filter(**{f"{moment}__lt": until}) if until else calls
