"""Signs of life that a watched cluster writes from within its own processes. Without a watchdog nothing is written.

A worker process records that it exists and whether it is busy; the canary records that a worker ran it; the monitor
records that the canary's result was acknowledged. The functions are receivers of django-q2's signals, where an
exception would end the process: if the database is away, they only log a warning.
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
from chatmemory.runtime.logging_config import log_uncaught_exceptions
from memory.models import Watch, WorkerProcess

logger = logging.getLogger(__name__)

VARIABLE = "WORKER_WATCH"
"""The environment variable in which a watchdog passes its name to its cluster."""
CANARY_TASK = "memory.tasks.canary_task"


def name() -> str:
    """The name of this process's watchdog; empty if there is none."""
    return os.environ.get(VARIABLE, "")


def listen() -> None:
    """Tie all processes of this cluster to each other, and connect the receivers below."""
    from django_q import signals

    parent_death.tie_forks()
    log_uncaught_exceptions()
    signals.post_spawn.connect(spawned, dispatch_uid="memory.worker.heartbeat.spawned")
    signals.pre_execute.connect(begun, dispatch_uid="memory.worker.heartbeat.begun")
    signals.post_execute_in_worker.connect(ended, dispatch_uid="memory.worker.heartbeat.ended")
    signals.post_execute.connect(acknowledged, dispatch_uid="memory.worker.heartbeat.acknowledged")


def run_canary(watch: str, number: int) -> None:
    """Run the canary: store its number as the last one done."""
    with _or_silent():
        Watch.objects.filter(pk=watch, done__lt=number).update(done=number)


def spawned(**_: object) -> None:
    """Record a worker process when it starts, which may be before its watchdog has looked. Runs in that process."""
    with _or_silent():
        Watch.objects.get_or_create(pk=name())
        _tell(busy_since=None)


def begun(task: dict[str, Any], **_: object) -> None:
    """Record that the worker process is busy, before a task. Runs in that process."""
    if task["func"] != CANARY_TASK:
        with _or_silent():
            _tell(busy_since=Now())


def ended(task: dict[str, Any], **_: object) -> None:
    """Record that the worker process is idle, after a task, whether or not it failed. Runs in that process."""
    if task["func"] != CANARY_TASK:
        with _or_silent():
            WorkerProcess.objects.filter(pk=process_id.name()).update(busy_since=None)


def acknowledged(task: dict[str, Any], **_: object) -> None:
    """Record in the monitor that a canary's result has been acknowledged."""
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
