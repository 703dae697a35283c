"""The tasks waiting in the queue, on either broker."""

from __future__ import annotations

from typing import Any

from django_q.brokers import get_broker
from django_q.models import OrmQ
from django_q.signing import SignedPackage

from memory.worker.redis_broker import GuardedRedis

FOLD = "memory.tasks.fold_task"
AT_MOST = 10_000


def size() -> int:
    """Return the number of waiting tasks."""
    return int(get_broker().queue_size())


def empty() -> None:
    """Remove all waiting tasks."""
    get_broker().purge_queue()


def payloads() -> set[str]:
    """Return the waiting tasks, as they were signed."""
    broker = get_broker()
    if isinstance(broker, GuardedRedis):
        return set(broker.payloads(AT_MOST))
    return set(OrmQ.objects.values_list("payload", flat=True))


def folds() -> list[str]:
    """Return the chats whose folds are waiting."""
    tasks: list[dict[str, Any]] = [SignedPackage.loads(payload) for payload in payloads()]
    return [task["args"][0] for task in tasks if task["func"] == FOLD]
