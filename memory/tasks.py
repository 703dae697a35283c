"""The functions that the queue may call: plain functions that take ids and return nothing.

A coroutine function would never run here: django-q2 cannot pickle what it returns.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.conf import settings

from chatmemory.runtime.logs import request_context, safe_traceback
from conversations.models import find_key
from memory import queue
from memory.folding import fold, leases
from memory.models import ChatEmbeddings, ConversationBrief
from memory.recall import embeddings
from memory.worker import sweep


class TaskFailed(Exception):
    """A failure as passed to the queue, which keeps and logs exception messages: the original may contain chat text."""


@contextmanager
def _task(request_id: str = "") -> Iterator[None]:
    with request_context(request_id):
        try:
            yield
        except Exception as exc:  # noqa: BLE001  # logged in full, and raised
            raise TaskFailed(safe_traceback(exc)) from None


def fold_task(chat_id: str, request_id: str = "") -> None:
    """Fold a chat for at most `MEMORY_FOLD_SECONDS`, and queue the task again if that was not enough."""
    with _task(request_id):
        chat = find_key(UUID(chat_id))
        if chat is None:
            return
        report = fold.fold(chat, until=time.monotonic() + settings.MEMORY_FOLD_SECONDS)
        if report.outcome == "idle":
            # Until now, no process could queue another task, and a lost lease leaves work behind.
            ConversationBrief.objects.filter(**chat.columns).update(queued_at=None)
            if leases.ready().filter(**chat.columns).exists():
                report.outcome = "more"
        if report.outcome == "more":
            queue.enqueue_fold(chat)
        if report.was_demanded or report.outcome == "idle":
            leases.enqueue_demanded(chat)


def embed_task(chat_id: str, request_id: str = "") -> None:
    """Compute the vectors of a chat's messages, and queue the task again if its time was not enough."""
    with _task(request_id):
        chat = find_key(UUID(chat_id))
        if chat is None:
            return
        ChatEmbeddings.objects.filter(**chat.columns).update(queued_at=None)
        if embeddings.catch_up(chat, time.monotonic() + settings.MEMORY_FOLD_SECONDS):
            queue.enqueue_embedding(chat)


def sweep_task() -> None:
    """Find and repair what a crash or a lost queue left behind."""
    with _task():
        sweep.sweep()
