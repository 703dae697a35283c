"""The rows by which a cluster is watched: sending canaries, reading the results, cleaning up after dead processes.

All times are the database's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

from django.conf import settings
from django.db.models.functions import Now
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import Schedule
from django_q.tasks import async_task

from memory import queue
from memory.folding import lease
from memory.models import Watch, WorkerProcess
from memory.worker.heartbeat import CANARY_TASK
from memory.worker.liveness import Facts

logger = logging.getLogger(__name__)

KEEP = timedelta(days=1)
"""A watch is removed after this long without a sign of its watchdog."""

NEVER = "No worker has answered yet: start one with `manage.py worker`."


def longest_task() -> timedelta:
    """An upper bound for the time of a task: the queue ends a task before that."""
    return timedelta(seconds=settings.Q_TIMEOUT + 5)


def look(watch: str, is_running: Callable[[int], bool]) -> Facts:
    """Return the facts about the cluster of `watch`, creating its row if needed. Cleans up after dead processes."""
    row, _ = Watch.objects.get_or_create(pk=watch)
    _forget_dead(watch, is_running)
    busy = WorkerProcess.objects.filter(watch=watch, busy_since__gte=Now() - longest_task()).count()
    return Facts(row.done, row.acknowledged, all_busy=busy >= settings.Q_WORKERS)


def send(watch: str, number: int) -> None:
    """Send a canary, after removing earlier ones from the queue."""
    get_broker(watch).purge_queue()
    options = {"task_name": f"canary {number}", "group": "canary", "cluster": watch, "save": False}
    async_task(CANARY_TASK, watch, number, q_options=options)
    Watch.objects.filter(pk=watch).update(seen_at=Now())


def mark_alive(watch: str) -> None:
    """Record that the cluster is alive although its canary waits."""
    Watch.objects.filter(pk=watch).update(alive_at=Now(), seen_at=Now())


def end(watch: str) -> None:
    """Remove all traces of a watch whose cluster has ended."""
    _forget_dead(watch, lambda _: False)
    get_broker(watch).purge_queue()
    Watch.objects.filter(pk=watch).delete()


def remove_abandoned() -> int:
    """Remove watches whose watchdog was killed long ago."""
    return Watch.objects.filter(seen_at__lt=Now() - KEEP).delete()[0]


def problem() -> str | None:
    """A sentence if no worker of any cluster has answered within `WORKER_PATIENCE_SECONDS`, else None."""
    recent = timedelta(seconds=settings.WORKER_PATIENCE_SECONDS)
    answered = Watch.objects.filter(alive_at__isnull=False)
    if answered.filter(alive_at__gte=Now() - recent).exists():
        return None
    return f"No worker has answered for {recent.total_seconds():g} s." if answered.exists() else NEVER


def sweep_if_late() -> None:
    """Queue a sweep if the scheduled one is overdue: a scheduler can stop while its workers go on."""
    late = timezone.now() - timedelta(seconds=2 * settings.SWEEP_SECONDS + 60)
    if Schedule.objects.filter(func=queue.SWEEP_TASK, next_run__lt=late).exists():
        logger.warning("the scheduled sweep is late, the watchdog queues one")
        queue.enqueue_sweep()


def _forget_dead(watch: str, is_running: Callable[[int], bool]) -> None:
    """Release the leases of dead processes, so that others continue at once instead of when the leases expire."""
    processes = WorkerProcess.objects.filter(watch=watch).values_list("pk", "pid")
    dead = [name for name, pid in processes if not is_running(pid)]
    if sum(lease.release_dead(name) for name in dead):
        queue.enqueue_sweep()
    if dead:
        WorkerProcess.objects.filter(pk__in=dead).delete()
