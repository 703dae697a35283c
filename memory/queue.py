"""Queueing of memory's tasks. The queue is only a hint: pending work is recorded in the tables.

A task is queued in the caller's own transaction, so it exists if and only if the change does. Arguments are only ids,
because they are pickled and kept.
"""

import math
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models import Q
from django.db.models.functions import Now
from django.dispatch import receiver
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.brokers.orm import ORM
from django_q.models import OrmQ, Schedule
from django_q.signals import pre_enqueue
from django_q.tasks import async_task

from chatmemory.database.ids import new_id
from chatmemory.database.owned import ChatKey
from chatmemory.runtime import fault_points, tracing
from chatmemory.runtime.logs import request_id
from memory.models import ChatEmbeddings, ConversationBrief

FOLD_TASK = "memory.tasks.fold_task"
SWEEP_TASK = "memory.tasks.sweep_task"
EMBED_TASK = "memory.tasks.embed_task"
TRACE = "trace"
"""The key of a task's trace. It is no argument, which a worker of an older version would refuse; it ignores the key."""

LOST_AFTER = timedelta(minutes=5)
"""A task that was queued this long ago, and that no worker has begun, is considered lost."""
RECENT = Q(queued_at__gt=Now() - LOST_AFTER)


def enqueue_fold(chat: ChatKey, name: str = "", *, lost: bool = False) -> str:
    """Queue a task that brings the memory of a chat up to date. Returns the task's name.

    At most one task per chat waits at a time: if there is one, this returns its name and queues no other, unless that
    one is known to be `lost`.
    """
    name = name or str(new_id())
    briefs = ConversationBrief.objects.filter(**chat.columns)
    free = briefs if lost else briefs.exclude(RECENT)
    if not free.update(queued_at=Now(), task_name=name):
        return briefs.values_list("task_name", flat=True).first() or name
    return _enqueue(FOLD_TASK, str(chat.id), request_id.get(), name=name)


def enqueue_embedding(chat: ChatKey, *, lost: bool = False) -> None:
    """Queue a task that embeds a chat's messages without vectors. At most one per chat waits, as with folds."""
    rows = ChatEmbeddings.objects.filter(**chat.columns)
    free = rows if lost else rows.exclude(RECENT)
    if free.update(queued_at=Now()) or not rows.exists():
        _enqueue(EMBED_TASK, str(chat.id), request_id.get())


def enqueue_sweep() -> str:
    """Queue a sweep. Returns the task's name."""
    return _enqueue(SWEEP_TASK)


def schedule_sweep() -> None:
    """Have the sweep run every `SWEEP_SECONDS`, rounded up to whole minutes, django-q2's unit. After each migration."""
    minutes = max(1, math.ceil(settings.SWEEP_SECONDS / 60))
    defaults = {"func": SWEEP_TASK, "schedule_type": Schedule.MINUTES, "minutes": minutes, "repeats": -1}
    Schedule.objects.update_or_create(name="chatmemory sweep", defaults=defaults)


def others_wait(chat: ChatKey) -> bool:
    """Whether a task of another chat, of any owner, waits."""
    return ConversationBrief.objects.filter(RECENT).exclude(pk=chat.id).exists()


def waiting_tasks() -> int:
    """The number of tasks in the queue that no worker has taken yet."""
    return int(get_broker().queue_size())


def waiting_chats(task: str, limit: int) -> set[str]:
    """The chats for which such a task waits, among the first `limit` in the queue.

    Read from the queue itself: a task that is queued according to the tables may have been lost.
    """
    waiting = OrmQ.objects.filter(lock__lte=timezone.now()).order_by("pk")[:limit]
    # A task that was signed with another SECRET_KEY has no function: the worker drops it.
    return {queued.args()[0] for queued in waiting if queued.func() == task}


def _enqueue(task: str, *args: str, name: str = "") -> str:
    name = name or str(new_id())
    async_task(task, *args, q_options={"task_name": name, "group": task.rpartition(".")[2], "save": False})
    fault_points.point("queue.enqueued")
    return name


@receiver(pre_enqueue)
def _add_trace(task: dict[str, Any], **_: Any) -> None:
    if trace := tracing.carrier():
        task[TRACE] = trace


class Broker(ORM):
    """django-q2's broker on the database, which takes tasks in the order they were queued; its own has no order."""

    @staticmethod
    def get_connection(list_key: str | None = None) -> Any:
        return ORM.get_connection(list_key or "").order_by("pk")


UNAVAILABLE: tuple[type[Exception], ...] = (DatabaseError, InterfaceError, OSError)
"""Raised while the database does not answer."""
