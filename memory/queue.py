"""Queueing of memory's tasks. The queue is only a hint: pending work is recorded in the tables.

On the ORM broker a task is queued in the caller's own transaction, so it exists if and only if the change does; on
the Redis broker it is queued after the commit, and a lost one is found by the sweep. Arguments are only ids, because
they are pickled and kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models import Q
from django.db.models.functions import Now
from django_q.brokers import get_broker
from django_q.signing import BadSignature, SignedPackage
from django_q.tasks import async_task

from chatmemory.database import executors
from chatmemory.database.ids import new_id
from chatmemory.runtime import fault_points
from chatmemory.runtime.logging_config import request_id
from memory.models import ChatEmbeddings, ConversationBrief

logger = logging.getLogger(__name__)

FOLD_TASK = "memory.tasks.fold_task"
SWEEP_TASK = "memory.tasks.sweep_task"
EMBED_TASK = "memory.tasks.embed_task"
COMPARE_TASK = "memory.tasks.compare_task"


LOST_AFTER = timedelta(minutes=5)
"""A task that was queued this long ago, and that no worker has begun, is considered lost."""
RECENT = Q(queued_at__gt=Now() - LOST_AFTER)


def enqueue_fold(chat_id: UUID, name: str = "", *, lost: bool = False) -> str:
    """Queue a task that brings the memory of a chat up to date. Returns the task's name.

    At most one task per chat waits at a time: if there is one, this returns its name and queues no other, unless that
    one is known to be `lost`.
    """
    name = name or str(new_id())
    briefs = ConversationBrief.objects.filter(pk=chat_id)
    free = briefs if lost else briefs.exclude(RECENT)
    if not free.update(queued_at=Now(), task_name=name):
        return briefs.values_list("task_name", flat=True).first() or name
    options = {"task_name": name, "group": "fold"}
    put = partial(async_task, FOLD_TASK, str(chat_id), request_id.get(), q_options=options)
    _enqueue(put, undo=partial(briefs.filter(task_name=name).update, queued_at=None))
    return name


def task_started(chat_id: UUID) -> None:
    """Record that a worker has begun the chat's task, so that another one may be queued."""
    ConversationBrief.objects.filter(pk=chat_id, queued_at__isnull=False).update(queued_at=None)


def enqueue_embedding(chat_id: UUID, *, lost: bool = False) -> None:
    """Queue a task that embeds a chat's messages without vectors. At most one per chat waits, as with folds."""
    rows = ChatEmbeddings.objects.filter(pk=chat_id)
    free = rows if lost else rows.exclude(RECENT)
    if not free.update(queued_at=Now()) and rows.exists():
        return
    options = {"task_name": str(new_id()), "group": "embed"}
    put = partial(async_task, EMBED_TASK, str(chat_id), request_id.get(), q_options=options)
    _enqueue(put, undo=partial(rows.update, queued_at=None))


def embedding_task_started(chat_id: UUID) -> None:
    """Record that a worker has begun to embed a chat, so that another task may be queued."""
    ChatEmbeddings.objects.filter(pk=chat_id, queued_at__isnull=False).update(queued_at=None)


def enqueue_comparison(comparison_id: UUID) -> str:
    """Queue a task that runs a comparison. Returns the task's name."""
    name = str(new_id())
    options = {"task_name": name, "group": "compare"}
    _enqueue(partial(async_task, COMPARE_TASK, str(comparison_id), request_id.get(), q_options=options))
    return name


def enqueue_sweep() -> str:
    """Queue a sweep. Returns the task's name."""
    name = str(new_id())
    _enqueue(partial(async_task, SWEEP_TASK, q_options={"task_name": name, "group": "sweep"}))
    return name


def worker_started(**_: object) -> None:
    """Queue a sweep when a worker process starts, as the previous one may have left work behind.

    Receives django-q2's `post_spawn`, in the worker. If the database is away, the worker must start nevertheless.
    """
    try:
        enqueue_sweep()
    except DatabaseError:
        logger.warning("sweep at start could not be queued", exc_info=True)


def waiting_tasks() -> int:
    """The number of tasks in the queue that no worker has taken yet."""
    return int(get_broker().queue_size())


def waiting_chats(task: str, at_most: int) -> set[str]:
    """The chats for which such a task waits, among the first `at_most` in the queue.

    Read from the queue itself: a task that is queued according to the tables may have been lost.
    """
    found = set[str]()
    broker: Any = get_broker()
    for payload in broker.payloads(at_most):
        try:
            queued: Any = SignedPackage.loads(payload)
        except BadSignature:  # signed with another SECRET_KEY: the worker drops it
            continue
        if queued["func"] == task:
            found.add(queued["args"][0])
    return found


def _enqueue(put: Callable[[], object], undo: Callable[[], object] = lambda: None) -> None:
    if settings.Q_BROKER == "redis":
        executors.after_commit(partial(_put_or_leave, put, undo))
    else:
        _put(put)


def _put(put: Callable[[], object]) -> None:
    put()
    fault_points.point("queue.enqueued")


def _put_or_leave(put: Callable[[], object], undo: Callable[[], object]) -> None:
    """Queue a task, or leave its work to the sweep while the queue is away."""
    try:
        _put(put)
    except UNAVAILABLE as exc:
        undo()
        logger.warning("task not queued, its work waits for the sweep", extra={"error": type(exc).__name__})


UNAVAILABLE: tuple[type[Exception], ...] = (DatabaseError, InterfaceError, OSError)
"""Raised while the database, or the queue's own server, does not answer."""


class QueueAway(OSError):
    """The queue does not answer, or did not a moment ago. The database may be available."""
