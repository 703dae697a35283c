"""The names that the queue may call. Plain functions, which take ids and return nothing.

A coroutine function would never run here: django-q2 cannot pickle what it returns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.conf import settings

from chatmemory.runtime.logging_config import request_context
from chatmemory.runtime.tracebacks import told
from memory import queue
from memory.folding import dispatch, fold
from memory.lab import comparison
from memory.recall import embedding_job
from memory.worker import heartbeat, sweep


class TaskFailed(Exception):
    """What the queue is told of a failure: it keeps and logs the words of an exception, which can be anybody's."""


@contextmanager
def _task(request_id: str = "") -> Iterator[None]:
    with request_context(request_id):
        try:
            yield
        except Exception as exc:  # noqa: BLE001  # told in full, and raised
            raise TaskFailed(told(exc)) from None


def fold_task(chat_id: str, request_id: str = "") -> None:
    """Fold a chat for `MEMORY_FOLD_SECONDS` at most, and queue itself again if that was not enough."""
    with _task(request_id):
        queue.taken(UUID(chat_id))
        report = fold.fold(UUID(chat_id), until=time.monotonic() + settings.MEMORY_FOLD_SECONDS)
        if report.outcome == "more":
            queue.enqueue_fold(report.chat_id)
        else:
            dispatch.hint_next(report.chat_id)


def embed_task(chat_id: str, request_id: str = "") -> None:
    """Give the messages of a chat their vectors, and queue itself again if the time of a task was not enough."""
    with _task(request_id):
        queue.embedding_taken(UUID(chat_id))
        if embedding_job.catch_up(UUID(chat_id), time.monotonic() + settings.MEMORY_FOLD_SECONDS):
            queue.enqueue_embedding(UUID(chat_id))


def compare_task(comparison_id: str, request_id: str = "") -> None:
    """Run a comparison of policies."""
    with _task(request_id):
        comparison.compare(UUID(comparison_id))


def sweep_task() -> None:
    """Find and repair what a crash or a lost queue left behind."""
    with _task():
        sweep.sweep()


def canary_task(watch: str, number: int) -> None:
    """Show a watchdog that its cluster runs tasks."""
    with _task():
        heartbeat.sing(watch, number)
