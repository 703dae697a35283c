"""Redis as the broker: the main job works, and tasks that Redis loses are recovered from the tables.

Uses the database that `REDIS_URL_FOR_TESTS` names, and empties it: a dedicated number, never the first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from django_q.models import OrmQ
from redis import Redis

from memory.models import ConversationBrief, SummaryRevision
from tests.faults.bench.table import Tally
from tests.processes.prompts import code, seen
from tests.processes.talking import LOW, question, settled, talk
from tests.support.factories import add_turns, make_chat
from tests.support.fakes.upstream import FakeUpstream
from tests.support.process_watch import Watched, due_chat, expect_deaths, is_folded
from tests.support.processes import Product, wait_for

URL = os.environ.get("REDIS_URL_FOR_TESTS", "")
pytestmark = [
    pytest.mark.processes,
    pytest.mark.services,
    pytest.mark.skipif(not URL, reason="REDIS_URL_FOR_TESTS names no Redis server"),
]


@pytest.fixture
def queue(product: Product) -> Iterator[Redis]:
    """Empty the Redis database, and make the product queue in it."""
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


@pytest.mark.promise("P13", injected="Redis flushed before a worker started")
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


@pytest.mark.promise("P13", injected="Redis flushed under a worker at work, canaries and all")
def test_a_queue_flushed_while_a_worker_runs(
    product: Product, fake: FakeUpstream, queue: Redis, tally: Tally, effort: Callable[[int, int], int]
) -> None:
    """Both workers are busy with a fold, so the tasks of other chats wait in Redis, or are prefetched and not lost."""
    product.worker(WORKER_CANARY_SECONDS="0.2", WORKER_PATIENCE_SECONDS="9")
    wait_for(lambda: product.logged("swept"), "a worker at work", timeout=60)
    for _ in range(effort(1, 10)):
        fake.hold("complete")
        chats = [make_chat() for _ in range(8)]
        for chat in chats:
            add_turns(chat, [(question(number), "Noted.") for number in range(40)])
        product.manage("sweep")
        fake.wait_until(lambda it: it.held("complete") == 2)
        queue.flushdb()
        fake.release("complete")
        wait_for(lambda: not queue.llen("django_q:chatmemory:q"), "an empty queue")
        product.manage("sweep")
        wait_for(lambda: all(settled(chat.pk) for chat in chats), "all folds", timeout=60)  # noqa: B023
        tally()


@pytest.mark.promise("P14", injected="`kill -9` of each process of a cluster on Redis")
def test_whichever_process_is_killed(
    product: Product, fake: FakeUpstream, queue: Redis, tally: Tally, effort: Callable[[int, int], int]
) -> None:
    worker = Watched(product)
    for victim in ("worker 1", "monitor", "worker 2", "pusher", "sentinel", "main")[: effort(2, 6)]:
        worker.kill(worker.whole().cluster()[victim])
        chat_id = (
            due_chat()
        )  # queued in the tables, where no worker looks: the next one to start finds it by its sweep
        product.manage("sweep")
        wait_for(lambda: is_folded(chat_id), f"a fold after the death of {victim}", timeout=60)  # noqa: B023
        assert worker.whole()
        assert worker.strangers() == set()
        tally()
    expect_deaths(product)


def test_a_lost_task_heals_by_a_sweep(product: Product, fake: FakeUpstream, queue: Redis) -> None:
    product.worker()
    wait_for(lambda: product.logged("swept"), "a worker at work")
    chat = make_chat()
    # This process queues in the tables, where no worker looks now: for the workers the task is lost.
    add_turns(chat, [(question(number), "Noted.") for number in range(40)])
    assert not settled(chat.pk)
    assert "1 chats enqueued" in product.manage("sweep")
    wait_for(lambda: settled(chat.pk), "a fold after a sweep")
    assert SummaryRevision.objects.filter(chat=chat).exists()
