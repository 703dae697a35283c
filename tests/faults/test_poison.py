"""A chat whose fold always kills its worker: after the allowed attempts the built-in summarizer folds it (P12).

Meanwhile it accepts messages, and afterwards other chats are folded as usual.
"""

import pytest

from memory.models import SummaryRevision
from memory.worker.sweep import sweep
from tests.processes.talking import say, settled
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product
from tests.support.supervised import Supervised, due_chat
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ATTEMPTS = 3
QUICK = {
    "MEMORY_FOLD_ATTEMPTS": str(ATTEMPTS),
    "MEMORY_FOLD_LEASE_SECONDS": "1",
    "MEMORY_FOLD_BACKOFF_SECONDS": "0.1",
}


@pytest.mark.promise("P12")
def test_a_chat_that_kills_its_worker(product: Product, fake: FakeUpstream) -> None:
    product.env |= QUICK
    product.server()
    client = product.client()
    poisoned = due_chat()
    fake.hold("complete")
    worker = Supervised(product)
    for attempt in range(1, ATTEMPTS + 1):
        wait_for(lambda: sweep() and fake.held("complete"), f"attempt {attempt}")
        say(client, "Can I still talk here?", poisoned)
        worker.kill()
        fake.wait_until(lambda it: it.held("complete") == 0)
    fake.release("complete")
    brief = wait_for(lambda: sweep() and settled(poisoned), "a fold of the poisoned chat")
    assert (len(fake.calls("complete")), brief.attempts, brief.degraded) == (ATTEMPTS, ATTEMPTS, True)

    other = due_chat()
    wait_for(lambda: sweep() and settled(other), "a fold of another chat")
    assert SummaryRevision.objects.filter(chat=other, degraded=False).exists()
    worker.stop()
