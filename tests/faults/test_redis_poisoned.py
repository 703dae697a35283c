"""Someone who can write to Redis cannot run code in the worker: what is read from there is signed, or not read."""

from __future__ import annotations

import base64
import os
import pickle
from pathlib import Path

import pytest
from django.db.models import Sum
from django_q.conf import Conf

from memory.models import Watch
from tests.faults.bench.redis_server import PrivateRedis
from tests.processes.talking import question, settled
from tests.support.factories import add_turns, make_chat
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product, wait_for

pytestmark = [pytest.mark.processes, pytest.mark.services, pytest.mark.slow]

ROUNDS = 12
"""Canaries to wait for. With each, the cluster has polled its queue and stored its statistics."""


class Poison:
    """An object that creates a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("broker", ["orm", "redis"])
def test_a_pickle_in_redis_is_never_opened(
    product: Product, fake: FakeUpstream, redis: PrivateRedis, broker: str, tmp_path: Path
) -> None:
    product.env |= {"REDIS_URL": redis.url, "Q_BROKER": broker, "WORKER_CANARY_SECONDS": "0.2"}
    product.env |= {"WORKER_PATIENCE_SECONDS": "10"}
    product.expected |= {"Failed to push task to queue", "something that is no task was in the queue"}
    marker = tmp_path / "opened"
    product.worker()
    wait_for(_canaries, "a worker at work", timeout=60)
    until = _canaries() + ROUNDS
    poison = pickle.dumps(Poison(marker))

    def have_gone_round() -> bool:
        _poison_all(redis, poison)
        assert not marker.exists(), "the worker opened a pickle from Redis"
        return _canaries() >= until

    wait_for(have_gone_round, "canaries that go round", timeout=60)
    chat = make_chat()
    add_turns(chat, [(question(number), "Noted.") for number in range(40)])
    product.manage("sweep")
    wait_for(lambda: settled(chat.pk), "a fold, with all that poison in the queue", timeout=60)
    assert not marker.exists()


def _canaries() -> int:
    return Watch.objects.aggregate(sum=Sum("acknowledged"))["sum"] or 0


def _poison_all(redis: PrivateRedis, poison: bytes) -> None:
    """Overwrite every value, and create those that a cache and a queue of django-q2 are known to read."""
    with redis.client() as client:
        keys = {key for key in client.scan_iter() if client.type(key) == b"string"}
        for key in {*keys, f":1:{Conf.Q_STAT}".encode(), Conf.Q_STAT.encode()}:
            client.set(key, poison)
        if client.llen("django_q:chatmemory:q") < 3:
            client.rpush("django_q:chatmemory:q", poison, base64.b64encode(poison) + b":1abcde:signature")


def test_the_control_a_pickle_that_is_opened_leaves_its_mark(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Poison(tmp_path / "opened")))
    assert (tmp_path / "opened").exists()
