"""Many folds of one chat at once, in two workers."""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import pytest

from memory.briefs import unfolded
from memory.models import ConversationBrief, SummaryRevision
from memory.queue import enqueue_fold, waiting_tasks
from tests.processes.prompts import code, codes
from tests.processes.talking import settled
from tests.support.fakes.connection import Request
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product
from tests.support.supervised import due_chat
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

RACERS = 8


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
    chat_id = due_chat(turns=60)
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
        ConversationBrief.objects.filter(pk=chat_id).update(next_attempt_at=None)
        if waiting_tasks() < RACERS:
            enqueue_fold(chat_id, lost=True)
        return fake.held("complete") == RACERS

    wait_for(all_are_in, "eight folds in the middle of the same call", timeout=40)
    fake.release("complete")
    wait_for(lambda: settled(chat_id), "a brief at rest", timeout=40)

    revisions = SummaryRevision.objects.filter(chat=chat_id)
    assert revisions.count() >= 2
    brief = ConversationBrief.objects.get(pk=chat_id)
    folded = brief.folded_through_seq // 2
    assert folded == 60 - unfolded(brief).turns > 40
    lost = product.logged("memory fold lost the race")
    calls = _calls(fake, chat_id)
    assert len(lost) >= 1
    assert len(calls) >= RACERS
    _each_once(calls, range(folded), wasted=len(calls) - revisions.count())
