"""Redis as the broker: the main job works, and what Redis loses is found in the tables.

Uses the database that `REDIS_URL_FOR_TESTS` names, and empties it: one with a number of its own, never the first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django_q.models import OrmQ
from redis import Redis

from memory.models import ConversationBrief, SummaryRevision
from tests.factories import add_turns, make_chat
from tests.fakes.upstream import FakeUpstream
from tests.processes.harness import Product, wait_for
from tests.processes.prompts import code, seen
from tests.processes.talking import LOW, question, settled, talk

URL = os.environ.get("REDIS_URL_FOR_TESTS", "")
pytestmark = [
    pytest.mark.processes,
    pytest.mark.services,
    pytest.mark.skipif(not URL, reason="REDIS_URL_FOR_TESTS names no Redis server"),
]


@pytest.fixture
def queue(product: Product) -> Iterator[Redis]:
    """The Redis database, emptied, and the product queueing on it."""
    assert urlsplit(URL).path.strip("/") not in ("", "0"), "the tests empty this database: give it a number"
    product.env |= {"REDIS_URL": URL, "Q_BROKER": "redis"}
    with Redis.from_url(URL) as server:
        server.flushdb()
        yield server
        product.stop()
        server.flushdb()


def test_the_main_job(product: Product, fake: FakeUpstream, queue: Redis) -> None:
    product.env |= LOW
    product.worker()
    product.server()
    chat_id, _ = talk(product.client(), range(30), patient=True)
    assert not OrmQ.objects.exists()
    assert SummaryRevision.objects.filter(chat=chat_id).count() >= 3
    for number, request in enumerate(fake.calls("stream")):
        prompt = seen(request)
        assert prompt.tokens <= int(LOW["MEMORY_PROMPT_TOKEN_BUDGET"])
        assert set[str]().union(*prompt.places) == {code(earlier) for earlier in range(number)}


def test_a_flushed_queue_heals_when_a_worker_starts(
    product: Product, fake: FakeUpstream, queue: Redis
) -> None:
    product.server()
    chat_id, _ = talk(product.client(), range(40))
    assert ConversationBrief.objects.get(pk=chat_id).due
    assert queue.dbsize() > 0
    queue.flushdb()
    product.worker()
    wait_for(lambda: settled(chat_id), "a fold after the sweep of a new worker")
    assert SummaryRevision.objects.filter(chat=chat_id).exists()


def test_a_lost_task_heals_by_a_sweep(product: Product, fake: FakeUpstream, queue: Redis) -> None:
    product.worker()
    wait_for(lambda: product.logged("swept"), "a worker at work")
    chat = make_chat()
    # This process queues in the tables, where no worker looks now: for them the task is lost.
    add_turns(chat, [(question(number), "Noted.") for number in range(40)])
    assert not settled(chat.pk)
    assert "1 chats enqueued" in product.manage("sweep")
    wait_for(lambda: settled(chat.pk), "a fold after a sweep")
    assert SummaryRevision.objects.filter(chat=chat).exists()
