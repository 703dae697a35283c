"""The worker: one process that takes tasks from django-q2's queue and runs each in a thread.

The queue is only a hint, because pending work is recorded in the tables: a task is removed from it however it ended,
and the sweep, each minute, queues work that is left. Most of a task's time is spent waiting for the
summarizer, so threads are enough. A task that hangs cannot be ended in its thread: then the process ends, and what
started it (systemd, a container's restart policy) starts it again.
"""

import logging
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db import connections
from django.utils import timezone
from django.utils.module_loading import import_string
from django_q.brokers import get_broker
from django_q.monitor import save_task
from django_q.scheduler import scheduler
from django_q.signing import BadSignature, SignedPackage

from chatmemory.runtime import tracing
from conversations.webhooks import delivery
from memory import queue
from memory.queue import UNAVAILABLE
from memory.worker import alive

logger = logging.getLogger(__name__)

TASKS = {queue.FOLD_TASK, queue.EMBED_TASK, queue.SWEEP_TASK}
"""The functions that tasks may call: a queue in a database that others can write to must not choose the code."""
SCHEDULE_SECONDS = 30.0
"""How often the schedule of the sweep is looked at, as by django-q2's own cluster."""
PAUSE_SECONDS = 1.0
"""Pause after the database was away."""
HANGS = 70
"""Exit code of a worker that ends because one of its tasks hangs."""


class TaskRunner:
    """Takes tasks and runs up to `WORKER_THREADS` of them at once."""

    def __init__(self) -> None:
        self._room = threading.Semaphore(settings.WORKER_THREADS)
        self._threads = ThreadPoolExecutor(settings.WORKER_THREADS, thread_name_prefix="task")
        """They are kept, because compiled statements belong to a thread's connection."""
        self._started: dict[Any, float] = {}
        """When each task that was taken was started, in monotonic time, by its id in the queue."""

    def run(self, stopped: threading.Event) -> bool:
        """Work until `stopped`, then wait for what runs, up to `WORKER_STOP_SECONDS`. Return whether all has ended."""
        webhooks = delivery.start(stopped)
        clock = threading.Thread(target=self._keep_time, args=(stopped,), name="clock", daemon=True)
        clock.start()
        broker = get_broker()
        while not stopped.is_set() and clock.is_alive():  # without its clock, it would look dead to all others
            if not self._room.acquire(timeout=PAUSE_SECONDS):
                continue
            taken = self._take(broker)
            if taken is None:
                self._room.release()
                continue
            self._started[taken[0]] = time.monotonic()
            self._threads.submit(self._run, broker, *taken)
        until = time.monotonic() + settings.WORKER_STOP_SECONDS
        while self._started and time.monotonic() < until:
            time.sleep(0.05)
        webhooks.join(max(0.0, until - time.monotonic()))
        with suppress(*UNAVAILABLE):
            alive.leave()
        return not (self._started or webhooks.is_alive())

    def _take(self, broker: Any) -> tuple[Any, str] | None:
        """Take a task from the queue: its id there, and its payload. If there is none, None after a short wait."""
        try:
            found = broker.dequeue()
        except UNAVAILABLE as exc:
            logger.warning("the queue does not answer", extra={"error": type(exc).__name__})
            connections.close_all()
            time.sleep(PAUSE_SECONDS)
            return None
        return found[0] if found else None

    def _run(self, broker: Any, queue_id: Any, payload: str) -> None:
        """Run a task, and remove it from the queue."""
        try:
            run_task(payload)
            broker.acknowledge(queue_id)
        except UNAVAILABLE as exc:
            logger.warning("a task could not be removed from the queue", extra={"error": type(exc).__name__})
        except Exception:  # the pool would keep it to itself
            logger.exception("a task could not be run")
        finally:
            connections.close_all()
            del self._started[queue_id]
            self._room.release()

    def _keep_time(self, stopped: threading.Event) -> None:
        """Renew the sign of life and look at the schedule, until the worker stops. Ends the process if a task hangs."""
        has_begun, scheduled_at = False, 0.0
        while not stopped.is_set():
            try:
                alive.beat()
                if alive.remove_dead() or not has_begun:
                    queue.enqueue_sweep()
                    has_begun = True
                if time.monotonic() - scheduled_at >= SCHEDULE_SECONDS:
                    scheduler()
                    scheduled_at = time.monotonic()
            except UNAVAILABLE as exc:
                logger.warning("the database does not answer", extra={"error": type(exc).__name__})
            finally:
                connections.close_all()
            if any(time.monotonic() - at > settings.Q_TIMEOUT for at in list(self._started.values())):
                logger.error("a task hangs, so the worker ends")
                logging.shutdown()
                os._exit(HANGS)
            stopped.wait(alive.BEAT_SECONDS)


def run_task(payload: str) -> None:
    """Run the task of a signed `payload`. What it raises is logged, and kept among django-q2's failures."""
    try:
        task: dict[str, Any] = SignedPackage.loads(payload)
    except BadSignature:
        logger.error("dropped a task that was signed with another key")
        return
    if task["func"] not in TASKS:
        logger.error("dropped a task with an unknown function")
        return
    started = timezone.now()
    try:
        with tracing.continued(task.get(queue.TRACE, {})):
            import_string(task["func"])(*task["args"], **task["kwargs"])
    except Exception as exc:  # noqa: BLE001  # whatever it is, the worker goes on
        logger.error("task failed", extra={"task": task["func"], "reason": str(exc)})
        result = f"{type(exc).__name__}: {exc}"
        ended = {"started": started, "stopped": timezone.now(), "success": False, "result": result}
        save_task(task | ended | {"sync": True}, get_broker())  # it leaves this thread's connection alone
