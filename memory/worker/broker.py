"""The brokers of django-q2, changed so that a watched cluster takes its own canaries first.

All clusters share one queue, and any of them may take any task: a canary in there would show that some cluster is
alive, not that this one is. So a watched cluster also reads a queue of its own, named after its watchdog. From there
a canary takes the same way as every other task: pusher, worker, monitor, acknowledgement.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from django.utils import timezone
from django_q.brokers import Broker
from django_q.brokers.orm import ORM

from memory.worker import heartbeat


class CanariesFirst(Broker):
    """A broker that looks into the cluster's own queue before the shared one."""

    plain: ClassVar[Any]
    """The broker class of django-q2 that the subclass wraps."""

    @cached_property
    def canaries(self) -> Any:
        return self.plain(list_key=heartbeat.name())

    def dequeue(self) -> Any:
        if heartbeat.name() and self.canaries.queue_size():
            return self.canaries.dequeue()
        return super().dequeue()  # type: ignore[no-untyped-call]  # django-q2 is untyped


class FirstInFirstOut(ORM):
    """A database broker that takes tasks in the order they were queued; django-q2's own leaves it undefined."""

    @staticmethod
    def get_connection(list_key: str | None = None) -> Any:
        return ORM.get_connection(list_key or "").order_by("pk")


class OrmBroker(CanariesFirst, FirstInFirstOut):
    plain = FirstInFirstOut

    def payloads(self, at_most: int) -> list[str]:
        """Payloads of waiting tasks, still signed."""
        rows = self.get_connection().filter(key=self.list_key, lock__lte=timezone.now())
        return list(rows.values_list("payload", flat=True)[:at_most])
