"""Putting memory's work on the queue. The queue is a hint: what is to be done stands in the tables.

On the ORM broker a task is queued in the caller's own transaction, so it exists if and only if the change
does; on the Redis broker it is queued after the commit, and one that is lost is found by the sweep. Only ids
go along, because arguments are pickled and kept.
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
"""A task that was queued so long ago, and that no worker has begun, is taken for lost."""
RECENT = Q(queued_at__gt=Now() - LOST_AFTER)


def enqueue_fold(chat_id: UUID, name: str = "", *, lost: bool = False) -> str:
    """Have a worker bring the memory of a chat up to date. Returns the task's name, to find it by.

    One task of a chat waits at a time: where one does, this returns its name and queues no other, unless it is known
    to be `lost`.
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


def taken(chat_id: UUID) -> None:
    """A worker has begun the task of a chat: the next one may wait."""
    ConversationBrief.objects.filter(pk=chat_id, queued_at__isnull=False).update(queued_at=None)


def enqueue_embedding(chat_id: UUID, *, lost: bool = False) -> None:
    """Have a worker embed what of a chat has no vectors yet. One task of a chat waits at a time, as of folds."""
    rows = ChatEmbeddings.objects.filter(pk=chat_id)
    free = rows if lost else rows.exclude(RECENT)
    if not free.update(queued_at=Now()) and rows.exists():
        return
    options = {"task_name": str(new_id()), "group": "embed"}
    put = partial(async_task, EMBED_TASK, str(chat_id), request_id.get(), q_options=options)
    _enqueue(put, undo=partial(rows.update, queued_at=None))


def embedding_taken(chat_id: UUID) -> None:
    """A worker has begun to embed a chat: the next task may wait."""
    ChatEmbeddings.objects.filter(pk=chat_id, queued_at__isnull=False).update(queued_at=None)


def enqueue_comparison(comparison_id: UUID) -> str:
    """Have a worker run a comparison. Returns the task's name."""
    name = str(new_id())
    options = {"task_name": name, "group": "compare"}
    _enqueue(partial(async_task, COMPARE_TASK, str(comparison_id), request_id.get(), q_options=options))
    return name


def enqueue_sweep() -> str:
    """Have a worker sweep now. Returns the task's name."""
    name = str(new_id())
    _enqueue(partial(async_task, SWEEP_TASK, q_options={"task_name": name, "group": "sweep"}))
    return name


def worker_started(**_: object) -> None:
    """Sweep when a worker process starts: whatever ended the one before may have left work behind.

    Receives django-q2's `post_spawn`, in the worker. A database that is away must not keep the worker from starting.
    """
    try:
        enqueue_sweep()
    except DatabaseError:
        logger.warning("sweep at start could not be queued", exc_info=True)


def waiting_tasks() -> int:
    """Tasks that wait in the queue and that no worker has taken yet."""
    return int(get_broker().queue_size())


def waiting_chats(task: str, at_most: int) -> set[str]:
    """The chats of which such a task waits, among the first `at_most` in the queue.

    Read from the queue itself: what the tables take for queued may have been lost.
    """
    found = set[str]()
    broker: Any = get_broker()
    for payload in broker.payloads(at_most):
        try:
            queued: Any = SignedPackage.loads(payload)
        except BadSignature:  # of another SECRET_KEY: the worker drops it
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
    except AWAY as exc:
        undo()
        logger.warning("task not queued, its work waits for the sweep", extra={"error": type(exc).__name__})


AWAY: tuple[type[Exception], ...] = (DatabaseError, InterfaceError, OSError)
"""What is raised while the database, or whatever else the queue stands on, does not answer."""


class QueueAway(OSError):
    """The queue does not answer, or did not a moment ago. The database may well."""
