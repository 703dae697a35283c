"""A user who requests rebuilds as often as possible delays no other user's fold (P31).

That orders beyond the limits cost nothing is shown in `tests/api/test_rebuild_limits.py`.
"""

import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest

from conversations.accounts.models import Window
from conversations.models import Message
from memory.models import ConversationBrief
from tests.processes.talking import LOW, settled
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.processes import Product
from tests.support.product import set_limits
from tests.support.supervised import due_chat
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ON = {"RATE_LIMITS": "on", "LIMIT_TOKENS_PER_DAY": "6000", "LIMIT_RESUMMARIZE_PER_HOUR": "20"}
MEASURED = 7
SLACK_SECONDS = 0.6
"""A worker polls for tasks twice a second, and the machine may be busy."""


@pytest.mark.promise("P31")
def test_requested_rebuilds_do_not_starve_others(product: Product, fake: FakeUpstream, settings: Any) -> None:
    product.env |= LOW | ON | {"MEMORY_MIN_RETAINED": "0", "SWEEP_SECONDS": "60"}
    set_limits(settings, LOW)
    fake.behave("normal?tokens=60&delay=0.5", lane="complete")
    product.worker()
    product.server()
    wait_for(lambda: product.logged("swept"), "a worker at work", timeout=60)
    alone = statistics.median(_fold_seconds() for _ in range(MEASURED))
    client = product.client("mallory")
    chats = [due_chat("mallory", 30) for _ in range(20)]
    wait_for(lambda: all(map(settled, chats)), "her own folds", timeout=180)
    with _flood(client, chats) as count:
        wait_for(lambda: count() > 60, "a flood")
        beside = statistics.median(_fold_seconds() for _ in range(MEASURED))
    print(f"others' folds {alone:.1f} s alone, {beside:.1f} s beside {count():,} orders")
    assert beside <= 2 * alone + SLACK_SECONDS
    assert Window.objects.get(kind="resummarize_per_hour").count == 20
    # The rest of her rebuilds does not matter here.
    ConversationBrief.objects.filter(pk__in=chats).update(requested="", on_demand_at=None)


def _fold_seconds() -> float:
    """Return the seconds until another user's chat that has come due is folded."""
    began = time.monotonic()
    chat = due_chat("victim", 12)
    assert ConversationBrief.objects.get(pk=chat).due
    wait_for(lambda: settled(chat), "a fold of somebody else", timeout=60)
    return time.monotonic() - began


@contextmanager
def _flood(client: Client, chats: list[UUID]) -> Iterator[Callable[[], int]]:
    """Order rebuilds, and edit, most of which is refused. Yields a function that returns how many answers came."""
    ended, statuses = threading.Event(), list[int]()
    firsts = dict(Message.objects.filter(chat__in=chats, seq=1).values_list("chat", "pk"))

    def order() -> None:
        dice = random.Random(1)
        while not ended.wait(0.02):
            chat = dice.choice(chats)
            if dice.random() < 0.7:
                answer = client.post(f"chats/{chat}/resummarize", json={"mode": "rebuild"})
            else:
                content = {"content": f"edited {dice.random()}"}
                answer = client.patch(f"chats/{chat}/messages/{firsts[chat]}", json=content)
            statuses.append(answer.status_code)

    thread = threading.Thread(target=order)
    thread.start()
    try:
        yield lambda: len(statuses)
    finally:
        ended.set()
        thread.join(30)
    assert set(statuses) <= {200, 202, 429}
