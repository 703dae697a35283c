"""What a watched cluster tells of itself, from within its own processes. One that nobody watches tells nothing.

A worker process says that it is there and whether it is busy, the canary that a worker ran it, the monitor that its
result came all the way. Receivers of django-q2's signals, where an exception would end the process: a database that
is away only makes them silent.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, InterfaceError, connection
from django.db.models.functions import Now

from chatmemory.runtime import parent_death, process_id
from chatmemory.runtime.logging_config import tell_of_crashes
from memory.models import Watch, WorkerProcess

logger = logging.getLogger(__name__)

VARIABLE = "WORKER_WATCH"
"""The environment variable by which a watchdog tells its cluster who watches."""
CANARY_TASK = "memory.tasks.canary_task"


def name() -> str:
    """The watchdog of this process; empty if there is none."""
    return os.environ.get(VARIABLE, "")


def listen() -> None:
    """Tie all processes of this cluster to each other, and have them tell of themselves."""
    from django_q import signals

    parent_death.tie_forks()
    tell_of_crashes()
    signals.post_spawn.connect(spawned, dispatch_uid="memory.worker.heartbeat.spawned")
    signals.pre_execute.connect(begun, dispatch_uid="memory.worker.heartbeat.begun")
    signals.post_execute_in_worker.connect(ended, dispatch_uid="memory.worker.heartbeat.ended")
    signals.post_execute.connect(acknowledged, dispatch_uid="memory.worker.heartbeat.acknowledged")


def sing(watch: str, number: int) -> None:
    """The canary: its effect is the number that it leaves behind."""
    with _or_silent():
        Watch.objects.filter(pk=watch, done__lt=number).update(done=number)


def spawned(**_: object) -> None:
    """In a worker process, when it starts; maybe before its watchdog has looked."""
    with _or_silent():
        Watch.objects.get_or_create(pk=name())
        _tell(busy_since=None)


def begun(task: dict[str, Any], **_: object) -> None:
    """In a worker process, before a task."""
    if task["func"] != CANARY_TASK:
        with _or_silent():
            _tell(busy_since=Now())


def ended(task: dict[str, Any], **_: object) -> None:
    """In a worker process, after a task, however it went."""
    if task["func"] != CANARY_TASK:
        with _or_silent():
            WorkerProcess.objects.filter(pk=process_id.name()).update(busy_since=None)


def acknowledged(task: dict[str, Any], **_: object) -> None:
    """In the monitor, when the result of a task has been acknowledged."""
    if task["func"] == CANARY_TASK and task["success"]:
        watch, number = task["args"]
        with _or_silent():
            came = Watch.objects.filter(pk=watch, acknowledged__lt=number)
            came.update(acknowledged=number, alive_at=Now())


def _tell(busy_since: Now | None) -> None:
    WorkerProcess.objects.update_or_create(
        pk=process_id.name(), defaults={"watch_id": name(), "pid": os.getpid(), "busy_since": busy_since}
    )


@contextmanager
def _or_silent() -> Iterator[None]:
    try:
        yield
    except (DatabaseError, InterfaceError) as exc:
        logger.warning("worker could not tell of itself", extra={"error": type(exc).__name__})
        connection.close()
