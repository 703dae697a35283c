"""A chat whose fold always kills its worker: after the allowed attempts the built-in summarizer folds it (P12).

Until then it accepts messages, and other chats are folded as usual.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from uuid import UUID

import pytest
from django_q.models import OrmQ

from conversations.models import Chat
from memory.models import ConversationBrief, SummaryRevision
from memory.worker.sweep import sweep
from tests.processes.talking import question, say, settled
from tests.support.factories import add_turns, make_chat, make_user
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product, wait_for
from tests.support.supervised import Supervised

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ATTEMPTS = 3
QUICK = {
    "MEMORY_FOLD_ATTEMPTS": str(ATTEMPTS),
    "MEMORY_FOLD_LEASE_SECONDS": "1",
    "MEMORY_FOLD_BACKOFF_SECONDS": "0.1",
}
POISON = "It begins with poison."


def due_chat(first: str) -> Chat:
    """Make a chat of alice's that is due, as an import leaves it."""
    chat = make_chat(make_user("alice"))
    add_turns(chat, [(first, "Noted."), *((question(number), "Noted.") for number in range(40))])
    return chat


@pytest.mark.promise("P12")
def test_a_chat_that_kills_its_worker(product: Product, fake: FakeUpstream) -> None:
    product.env |= QUICK
    fake.behave("normal?delay=0.5", lane="complete")
    poisoned, other = due_chat(POISON), due_chat("Nothing is wrong with it.")
    worker = Supervised(product)
    product.server()
    client = product.client()
    dead: set[str] = set()

    def folded_without_the_upstream() -> ConversationBrief | None:
        if len(dead) < ATTEMPTS:
            _kill_who_asks(poisoned, fake, dead)
        if not OrmQ.objects.exists():
            sweep()
        brief = settled(poisoned.pk)
        return brief if brief and brief.version else None

    brief = wait_for(folded_without_the_upstream, "a fold of the poisoned chat", timeout=90)
    assert (len(dead), brief.attempts, brief.degraded) == (ATTEMPTS, ATTEMPTS, True)
    say(client, "Can I still talk here?", poisoned.pk)
    wait_for(lambda: _is_folded_well(other.pk), "a fold of the other chat")
    worker.stop()


def _kill_who_asks(chat: Chat, fake: FakeUpstream, dead: set[str]) -> None:
    """Kill the worker process that is asking for a summary of `chat`, unless it is among the `dead`."""
    asked = sum(POISON in request.text for request in fake.calls("complete"))
    owner = ConversationBrief.objects.values_list("lease_owner", flat=True).get(pk=chat.pk)
    if asked > len(dead) and owner and owner not in dead:
        dead.add(owner)
        with suppress(ProcessLookupError):
            os.kill(int(owner.split(":")[1]), signal.SIGKILL)


def _is_folded_well(chat_id: UUID) -> bool:
    brief = settled(chat_id)
    return bool(brief and brief.version and not SummaryRevision.objects.filter(chat=chat_id, degraded=True))
