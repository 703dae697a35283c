"""The tasks waiting in the queue."""

from __future__ import annotations

from typing import Any

from django_q.models import OrmQ
from django_q.signing import SignedPackage

FOLD = "memory.tasks.fold_task"


def size() -> int:
    """Return the number of tasks in the queue, including those that a worker has taken."""
    return OrmQ.objects.count()


def empty() -> None:
    """Remove all tasks."""
    OrmQ.objects.all().delete()


def payloads() -> set[str]:
    """Return the tasks, as they were signed."""
    return set(OrmQ.objects.values_list("payload", flat=True))


def folds() -> list[str]:
    """Return the chats whose folds are in the queue."""
    tasks: list[dict[str, Any]] = [SignedPackage.loads(payload) for payload in payloads()]
    return [task["args"][0] for task in tasks if task["func"] == FOLD]
