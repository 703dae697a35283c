"""django-q2's Redis broker for a Redis that may be away or hang: waits for it are short and rare.

Timeouts are short, nothing is retried, and after one failure this process does not call Redis for some seconds.
Nothing is lost by that: pending work is recorded in the tables, and the sweep queues it once Redis is back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

import redis
from django.conf import settings
from django_q.brokers import redis_broker
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from chatmemory.llm.retry import Breaker
from memory.queue import QueueAway
from memory.worker.broker import CanariesFirst

logger = logging.getLogger(__name__)
T = TypeVar("T")

CONNECT_TIMEOUT_SECONDS = 0.5
READ_TIMEOUT_SECONDS = 0.5
REST_SECONDS = 5.0
"""How long a process does not call Redis after a failure."""
POLL_SECONDS = 0.5
"""How long a worker waits before it checks whether Redis is back."""
BLOCK_SECONDS = 1
"""How long a worker waits at an empty queue before it looks again."""

_breaker = Breaker(max_failures=1, rest_seconds=REST_SECONDS)


class GuardedRedis(redis_broker.Redis):  # type: ignore[name-defined,misc]  # django-q2 exports nothing
    """A broker whose every call returns or raises `QueueAway`, within a second."""

    @staticmethod
    def get_connection(list_key: str | None = None) -> Any:
        return _client(READ_TIMEOUT_SECONDS)

    def ping(self) -> bool:
        """Return True: called at the start of a cluster, which waits for Redis later anyway."""
        return True

    def enqueue(self, task: Any) -> Any:
        return _guarded(lambda: self.connection.rpush(self.list_key, task))

    def dequeue(self) -> Any:
        client = _client(BLOCK_SECONDS + READ_TIMEOUT_SECONDS)
        task = _guarded(lambda: client.blpop(self.list_key, BLOCK_SECONDS))
        if task and not task[1].isascii():  # not a signed task; django-q2 would fail on it
            logger.error("something that is no task was in the queue")
            return None
        return [(None, task[1])] if task else None

    def queue_size(self) -> int:
        return int(_guarded(lambda: self.connection.llen(self.list_key)))

    def payloads(self, at_most: int) -> list[str]:
        """Payloads of waiting tasks, still signed."""
        found = _guarded(lambda: self.connection.lrange(self.list_key, 0, at_most - 1))
        return [payload.decode() for payload in found if payload.isascii()]

    def purge_queue(self) -> Any:
        return _guarded(lambda: self.connection.ltrim(self.list_key, 1, 0))

    def set_stat(self, key: str, value: str, timeout: int) -> None:
        """Store what `qinfo` shows. Called twice a second, so failures are ignored."""
        with suppress(QueueAway):
            _guarded(lambda: self.connection.set(key, value, timeout))


class RedisBroker(CanariesFirst, GuardedRedis):  # type: ignore[misc]  # django-q2 says a connection is an int
    plain = GuardedRedis

    def dequeue(self) -> Any:
        """Take a task, waiting for Redis: an error would end the process that takes tasks, again and again."""
        _breaker.rest_seconds = POLL_SECONDS  # a process that takes tasks has nothing to do but retry
        try:
            return super().dequeue()
        except QueueAway:
            time.sleep(POLL_SECONDS)
            return None


@cache
def _client(read_timeout: float) -> redis.Redis:
    """One client per process and timeout; a child process makes its own connections."""
    return redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=CONNECT_TIMEOUT_SECONDS,
        socket_timeout=read_timeout,
        retry=Retry(NoBackoff(), 0),
    )


def _guarded(ask: Callable[[], T]) -> T:
    if not _breaker.allows(time.monotonic()):
        raise QueueAway("Redis did not answer a moment ago")
    try:
        answer = ask()
    except RedisError as exc:
        if _breaker.failed(time.monotonic()):
            logger.warning("Redis does not answer", extra={"error": type(exc).__name__})
        raise QueueAway("Redis does not answer") from None
    _breaker.succeeded()
    return answer
