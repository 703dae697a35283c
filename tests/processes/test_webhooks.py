"""A worker that is killed while it delivers: each event arrives at least once, those of a chat in their order."""

import threading
from typing import Any

import pytest
from django.db.models.functions import Now

from chatmemory.database.ids import new_id
from conversations.accounts.end_users import create_app
from conversations.webhooks.models import WebhookEvent
from tests.support.exhaustive import effort
from tests.support.fakes.receiver import Receiver
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]
PRIVATE = {"WEBHOOK_ALLOW_PRIVATE": "true"}


@pytest.mark.parametrize("answers_first", [False, True])
def test_events_of_a_killed_worker_are_delivered(
    product: Product, transactional_db: None, settings: Any, answers_first: bool
) -> None:
    """Killed before the receiver has answered, and before the answer is stored."""
    settings.WEBHOOK_ALLOW_PRIVATE = True
    app, released = create_app("shop"), threading.Event()
    chats = [new_id() for _ in range(3)]
    for number in range(4 * len(chats)):
        WebhookEvent.objects.create(
            event_id=new_id(),
            app=app,
            chat_id=chats[number % len(chats)],
            type="reply.completed",
            figures={"number": number},
        )
    waiting = WebhookEvent.objects.filter(state="waiting")
    with Receiver(answer=lambda event: 204 if answers_first or released.wait(60) else 500) as receiver:
        receiver.serve(app)
        for _ in range(effort(2, 10)):
            worker, before = product.worker(**PRIVATE), len(receiver.received)
            wait_for(lambda: len(receiver.received) > before, "a delivery")  # noqa: B023
            worker.kill_all()
            waiting.update(not_before=Now())  # the lease ends
        released.set()
        product.worker(**PRIVATE)
        wait_for(lambda: not waiting.exists(), "all deliveries")
        assert receiver.faults == []
    for at in range(len(chats)):
        numbers = [event["data"]["number"] for event in receiver.received if event["data"]["number"] % 3 == at]
        firsts = list(dict.fromkeys(numbers))
        assert firsts == [at, at + 3, at + 6, at + 9]
        assert numbers == sorted(numbers)
    assert len({event["id"] for event in receiver.received}) == 12
