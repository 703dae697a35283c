"""The current state of the work on memory: what waits, what fails, whether a worker is running. For staff.

Every count uses an index and reads at most `MAX_COUNTED` rows, however many there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Max, Min, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Now
from django_q.conf import Conf
from django_q.models import OrmQ, Schedule

from conversations.models import ActiveReply
from memory import queue
from memory.admin import states
from memory.explain.reasons import error_words
from memory.models import ContextRecord, Worker
from memory.worker import alive

MAX_COUNTED = 1000
"""The most rows counted of anything; if there are more, the count is shown as "1,000 or more"."""
FAILING_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Count:
    """A number of rows, or a lower bound if not all were counted."""

    number: int
    is_all: bool = True

    def __str__(self) -> str:
        return f"{self.number:,}" if self.is_all else f"{self.number:,} or more"

    def __bool__(self) -> bool:
        return self.number > 0


@dataclass(frozen=True, slots=True)
class Failing:
    """A chat whose summarizer is failing. The error's text is left out: it may quote the chat."""

    chat_id: UUID
    attempts: int
    why: str
    next_attempt_at: datetime | None


@dataclass(frozen=True, slots=True)
class Workload:
    """What waits, and who works."""

    chats: Mapping[str, Count]
    """Chats with work, by the name of their state (`states.STATES`)."""
    being_written: Count
    uncounted: Count
    """Replies that are not in the daily figures yet."""
    queued: int
    oldest_queued_at: datetime | None
    """None if nothing waits."""
    worker_problem: str | None
    """A sentence if no worker gives a sign of life, else None."""
    worker_alive_at: datetime | None
    next_sweep_at: datetime | None


def current_workload() -> Workload:
    """The current workload, in a fixed number of queries."""
    schedule = Schedule.objects.filter(func=queue.SWEEP_TASK).order_by("pk").first()
    return Workload(
        chats=_waiting_chats(),
        being_written=_count(ActiveReply.objects.order_by("pk")),
        uncounted=_count(ContextRecord.objects.filter(is_counted=False)),
        queued=queue.waiting_tasks(),
        oldest_queued_at=_oldest_task(),
        worker_problem=alive.problem(),
        worker_alive_at=Worker.objects.aggregate(at=Max("seen_at"))["at"],
        next_sweep_at=schedule.next_run if schedule else None,
    )


def failing() -> list[Failing]:
    """Chats whose summarizer is failing, most recent failure first."""
    rows = states.waiting().filter(states.STATES["failing"].condition, next_attempt_at__isnull=False)
    shown = rows.order_by("-next_attempt_at").annotate(code=KT("last_error__code"))[:FAILING_SHOWN]
    columns = ("chat_id", "attempts", "code", "next_attempt_at")
    return [
        Failing(chat_id, attempts, error_words(code) if code else "–", at)
        for chat_id, attempts, code, at in shown.values_list(*columns)
    ]


def _waiting_chats() -> dict[str, Count]:
    all_of_them, found = states.counts(MAX_COUNTED + 1)
    return {
        name: Count(min(number, MAX_COUNTED), all_of_them <= MAX_COUNTED) for name, number in found.items()
    }


def _count(rows: QuerySet[Any]) -> Count:
    found = rows[: MAX_COUNTED + 1].count()
    return Count(min(found, MAX_COUNTED), found <= MAX_COUNTED)


def _oldest_task() -> datetime | None:
    """When the longest-waiting task was queued: its lock is the time from which it may be taken."""
    waiting = OrmQ.objects.filter(key=Conf.CLUSTER_NAME, lock__lte=Now())
    oldest: datetime | None = waiting.aggregate(at=Min("lock"))["at"]
    return oldest
