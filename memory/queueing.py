"""Putting memory's work on the queue. The queue is a hint: what is to be done stands in the tables.

On the ORM broker a task is queued in the caller's own transaction, so it exists if and only if the change
does; on the Redis broker it is queued after the commit, and one that is lost is found by the sweep. Only ids
go along, because arguments are pickled and kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, transaction
from django_q.brokers import get_broker
from django_q.tasks import async_task

from chatmemory import faults
from chatmemory.ids import new_id
from chatmemory.observability import request_id

logger = logging.getLogger(__name__)

FOLD_TASK = "memory.tasks.fold_task"
SWEEP_TASK = "memory.tasks.sweep_task"
EMBED_TASK = "memory.tasks.embed_task"
COMPARE_TASK = "memory.tasks.compare_task"


def enqueue_fold(chat_id: UUID) -> str:
    """Have a worker bring the memory of a chat up to date. Returns the task's name, to find it by."""
    name = str(new_id())
    options = {"task_name": name, "group": "fold"}
    _enqueue(partial(async_task, FOLD_TASK, str(chat_id), request_id.get(), q_options=options))
    return name


def enqueue_embedding(chat_id: UUID) -> str:
    """Have a worker embed what of a chat has no vectors yet. Returns the task's name."""
    name = str(new_id())
    options = {"task_name": name, "group": "embed"}
    _enqueue(partial(async_task, EMBED_TASK, str(chat_id), request_id.get(), q_options=options))
    return name


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


def _enqueue(put: Callable[[], object]) -> None:
    if settings.Q_BROKER == "redis":
        transaction.on_commit(put, robust=True)
    else:
        put()
        faults.point("queue.enqueued")
