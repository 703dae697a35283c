"""The names that the queue may call. Plain functions, which take ids and return nothing.

A coroutine function would never run here: django-q2 cannot pickle what it returns.
"""

from __future__ import annotations

import time
from uuid import UUID

from django.conf import settings

from chatmemory.observability import request_context
from memory import comparing, folding, queueing, sweeping


def fold_task(chat_id: str, request_id: str = "") -> None:
    """Fold a chat for `MEMORY_FOLD_SECONDS` at most, and queue itself again if that was not enough."""
    with request_context(request_id):
        report = folding.fold(UUID(chat_id), until=time.monotonic() + settings.MEMORY_FOLD_SECONDS)
        if report.outcome == "more":
            queueing.enqueue_fold(report.chat_id)


def compare_task(comparison_id: str, request_id: str = "") -> None:
    """Run a comparison of policies."""
    with request_context(request_id):
        comparing.compare(UUID(comparison_id))


def sweep_task() -> None:
    """Find and repair what a crash or a lost queue left behind."""
    sweeping.sweep()
