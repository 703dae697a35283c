"""Workers that die while retention erases, and people who write at that moment (P34).

Nothing is erased that should stay, nothing is kept that should go, and no chat is half there: whoever was told that
their message is stored has their whole chat.
"""

import threading
from datetime import timedelta
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest
from django.utils import timezone

from conversations.models import Chat, Message
from conversations.retention.models import Erased
from tests.support.database import traces
from tests.support.exhaustive import effort
from tests.support.factories import add_turns, make_chat, make_user
from tests.support.fault_points import faults
from tests.support.live_server import Client
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

CHATS = effort(24, 120)
"""Of each kind."""
WAYS = ("kill", "raise", "kill")
SAID = [("The blue heron", "Noted."), ("And?", "Yes.")]


def old(**fields: object) -> UUID:
    chat = make_chat(make_user("alice"), last_message_at=timezone.now() - timedelta(days=3), **fields)
    add_turns(chat, SAID)
    return chat.pk


@pytest.mark.promise("P34")
def test_kills_while_chats_are_erased(offline_product: Product, tmp_path: Path) -> None:
    product = offline_product
    product.env["RETENTION_DAYS"] = "1"
    product.expected.add("chat not erased")
    product.server()
    over = [old(**fields) for fields in ({}, {"temporary": True}, {"retain_days": 2}) for _ in range(CHATS)]
    kept = [old(**fields) for fields in ({"pinned": True}, {"retain_days": 9}) for _ in range(CHATS)]
    contested = over[1::3]
    writer = Writer(product.client("alice"), contested)
    order = tmp_path / "order"
    for number, what in zip(count(2), WAYS, strict=False):
        struck = tmp_path / f"struck-{number}"
        order.write_text(f"delete.stored:{number}:{what}:{struck}")
        worker = product.worker(**faults(order), SWEEP_SECONDS="60")
        wait_for(struck.exists, "a fault", timeout=120)
        if what == "kill":
            wait_for(lambda: worker.exit_code is not None, "the worker's end")  # noqa: B023
        product.kill(worker)
    erased = Erased.objects.count()
    product.worker(SWEEP_SECONDS="60")
    wait_for(lambda: Erased.objects.count() > erased + 3, "a worker that erases", timeout=60)
    writer.start()
    writer.join()
    product.manage("retain")

    told, refused = writer.answers(200), writer.answers(404)
    assert told | refused == set(contested)
    there = set(Chat.objects.values_list("pk", flat=True))
    assert there == {*kept, *told}
    gone = set(over) - told
    assert {UUID(one) for one in Erased.objects.values_list("object_id", flat=True)} == gone
    assert [one for one in map(str, gone) if traces(one)] == []
    for chat in there:
        expected = 2 * len(SAID) + 2 * (chat in told)
        assert Message.objects.filter(chat=chat).count() == expected


class Writer(threading.Thread):
    """Sends one message to each of these chats, while they are being erased."""

    def __init__(self, client: Client, chats: list[UUID]) -> None:
        super().__init__()
        self._client, self._chats = client, chats
        self._statuses: dict[UUID, int] = {}

    def run(self) -> None:
        for chat in self._chats:
            body = {"message": "Wait!", "chat_id": str(chat), "stream": False}
            self._statuses[chat] = self._client.post("message", json=body).status_code

    def answers(self, status: int) -> set[UUID]:
        """Return the chats whose message was answered with that status."""
        return {chat for chat, one in self._statuses.items() if one == status}
