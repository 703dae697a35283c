"""Many at once, in real processes: turns of many chats beside their folds, and many folds of one chat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from django.db import connection

from conversations.models import Message
from memory.models import ConversationBrief, SummaryRevision
from memory.queue import enqueue_fold, waiting_tasks
from tests.processes.prompts import code, codes
from tests.processes.talking import LOW, question, settled, talk
from tests.support.factories import add_turns, make_chat
from tests.support.fakes.connection import Request
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.processes import Product, wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

THREADS, TURNS, RACERS = 8, 25, 8


@pytest.mark.promise("P10", "P11")
def test_8_threads_of_25_turns_beside_their_folds(product: Product, fake: FakeUpstream) -> None:
    product.env |= LOW | {"MEMORY_FOLD_BITE_TOKENS": "1500"}
    for _ in range(2):
        product.worker()
    clients: list[Client] = []
    for _ in range(2):
        product.server()
        clients += [product.client(f"user-{len(clients)}") for _ in range(THREADS // 2)]
    wait_for(lambda: product.logged("swept"), "a worker at work")
    numbers = [range(at * TURNS, (at + 1) * TURNS) for at in range(THREADS)]

    with ThreadPoolExecutor(THREADS) as threads:
        chats = list(threads.map(_talk, clients, numbers))

    wait_for(lambda: all(map(settled, chats)), "the folds of all chats", timeout=40)
    for chat_id, own in zip(chats, numbers, strict=True):
        said = Message.objects.filter(chat=chat_id).order_by("seq").values_list("content", flat=True)
        assert list(said)[::2] == [question(number) for number in own]
        revisions = SummaryRevision.objects.filter(chat=chat_id)
        assert revisions.count() >= 2
        folded = ConversationBrief.objects.get(pk=chat_id).folded_through_seq // 2
        _each_once(_calls(fake, chat_id), own[:folded], wasted=len(_calls(fake, chat_id)) - revisions.count())


def _talk(client: Client, numbers: Sequence[int]) -> UUID:
    try:
        return talk(client, numbers)[0]
    finally:
        connection.close()


def _calls(fake: FakeUpstream, chat_id: UUID) -> list[Request]:
    """Return the summarizer's requests for this chat."""
    return [one for one in fake.calls("complete") if one.body["prompt_cache_key"] == str(chat_id)]


def _each_once(calls: Sequence[Request], numbers: Sequence[int], *, wasted: int) -> None:
    """Assert that each of these turns was new to the summarizer in one call, except for up to `wasted` failed calls."""
    new = Counter(
        found for call in calls for found in codes(call.said[0][1].partition("=== NEW_TURNS ===")[2])
    )
    assert set(new) >= {code(number) for number in numbers}
    assert max(new.values()) <= 1 + wasted


@pytest.mark.promise("P10")
def test_8_racing_folds_of_one_chat(product: Product, fake: FakeUpstream) -> None:
    """Their leases run out at once, so that all eight are in the middle of the same call; one of them wins."""
    chat = make_chat()
    add_turns(chat, [(question(number), "Noted.") for number in range(60)])
    product.env |= {
        "MEMORY_FOLD_LEASE_SECONDS": "0.05",
        "MEMORY_FOLD_BACKOFF_SECONDS": "0.05",
        "MEMORY_FOLD_ATTEMPTS": "1000",
        "WORKER_THREADS": str(RACERS // 2),
    }
    fake.hold("complete")
    for _ in range(2):
        product.worker()

    def all_are_in() -> bool:
        """A fold that finds the lease taken, or a waiting attempt, ends at once, so keep queueing."""
        ConversationBrief.objects.filter(pk=chat.pk).update(next_attempt_at=None)
        if waiting_tasks() < RACERS:
            enqueue_fold(chat.pk, lost=True)
        return fake.held("complete") == RACERS

    wait_for(all_are_in, "eight folds in the middle of the same call", timeout=40)
    fake.release("complete")
    wait_for(lambda: settled(chat.pk), "a brief at rest", timeout=40)

    revisions = SummaryRevision.objects.filter(chat=chat)
    assert revisions.count() >= 2
    brief = ConversationBrief.objects.get(pk=chat.pk)
    folded = brief.folded_through_seq // 2
    assert folded == 60 - brief.unfolded_turns > 40
    lost = product.logged("memory fold lost the race")
    calls = _calls(fake, chat.pk)
    assert len(lost) >= 1
    assert len(calls) >= RACERS
    _each_once(calls, range(folded), wasted=len(calls) - revisions.count())
