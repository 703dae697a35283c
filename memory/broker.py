"""django-q2's brokers, but a watched cluster takes its own canaries first.

All clusters share one queue, and any may take any task: a canary in there would tell of some cluster, not of this one.
So a watched cluster also reads a queue of its own, named after its watchdog. From there on a canary goes the way of
every other task: pusher, worker, monitor, acknowledgement.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django_q.brokers import Broker
from django_q.brokers.orm import ORM

from memory import watched

AWAY: tuple[type[Exception], ...] = (DatabaseError, InterfaceError, OSError)
"""What is raised while the database, or whatever else the queue stands on, does not answer."""


class CanariesFirst(Broker):
    """Looks into the cluster's own queue before the shared one."""

    plain: ClassVar[Any]
    """The broker of django-q2 that this is one of."""

    @cached_property
    def canaries(self) -> Any:
        return self.plain(list_key=watched.name())

    def dequeue(self) -> Any:
        if watched.name() and self.canaries.queue_size():
            return self.canaries.dequeue()
        return super().dequeue()  # type: ignore[no-untyped-call]  # django-q2's


class OrmBroker(CanariesFirst, ORM):
    plain = ORM


if settings.Q_BROKER == "redis":
    from django_q.brokers import redis_broker
    from redis.exceptions import RedisError

    AWAY = (*AWAY, RedisError)

    class RedisBroker(CanariesFirst, redis_broker.Redis):  # type: ignore[name-defined,misc]  # it exports nothing
        plain = redis_broker.Redis  # type: ignore[attr-defined]  # as above
