"""Processes killed, and rows lost or changed, without the product's knowledge: the work is done anyway, and once."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import pytest
from django.db import transaction
from django.db.models.functions import Now
from django_q.models import Schedule

from conversations.models import ActiveReply, Chat, Message, Status
from memory.models import ConversationBrief, SummaryRevision
from memory.queue import waiting_tasks
from memory.worker.sweep import sweep
from tests.faults.bench import queued
from tests.processes.talking import question, say, settled
from tests.support.exhaustive import effort
from tests.support.factories import add_turns, make_chat
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product, wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUICK = {"MEMORY_FOLD_LEASE_SECONDS": "1", "MEMORY_FOLD_BACKOFF_SECONDS": "0.1"}
"""Settings with which a dead worker's lease is soon free again."""


def due_chat() -> Chat:
    """Make a chat with 40 turns that is due, as an import leaves it: its fold is in the queue."""
    chat = make_chat()
    add_turns(chat, [(question(number), "Noted.") for number in range(40)])
    assert ConversationBrief.objects.get(pk=chat.pk).due
    assert queued.size() > 0
    return chat


def folded_once(chat_id: UUID) -> bool:
    """Whether it is at rest, with every turn in one revision; the invariants check the rest when the test ends."""
    brief = settled(chat_id)
    if brief is None or not brief.version:
        return False
    spans = SummaryRevision.objects.filter(chat=chat_id).values_list("turns", flat=True)
    assert sum(spans) + brief.unfolded_turns == 40
    return True


def heal(chat_id: UUID) -> None:
    """Sweep until the fold has happened, as the schedule would."""

    def healed() -> bool:
        if not waiting_tasks():
            sweep()
        return folded_once(chat_id)

    wait_for(healed, "a fold after a sweep")


def test_a_worker_killed_in_the_middle_of_a_fold(product: Product, fake: FakeUpstream) -> None:
    product.env |= QUICK
    chat = due_chat()
    fake.hold("complete")
    worker = product.worker()
    fake.wait_until(lambda it: it.held("complete") == 1)
    product.kill(worker)
    assert ConversationBrief.objects.get(pk=chat.pk).lease_owner
    assert not SummaryRevision.objects.exists()
    fake.release("complete")
    product.worker()
    heal(chat.pk)
    assert ConversationBrief.objects.get(pk=chat.pk).last_error is None


@pytest.mark.promise("P13")
def test_an_emptied_queue(product: Product, fake: FakeUpstream) -> None:
    chat = due_chat()
    queued.empty()
    product.worker()
    # No sweep from here: a worker that starts makes one.
    wait_for(lambda: folded_once(chat.pk), "a fold after the sweep of a new worker")


@pytest.mark.promise("P13")
def test_a_queue_emptied_while_a_worker_runs(product: Product, fake: FakeUpstream) -> None:
    """A sweep finds the chat: in the long form the scheduled one, which the worker checks for every 30 s."""
    product.worker()
    wait_for(lambda: product.logged("swept"), "a worker at work", timeout=60)
    for _ in range(effort(2, 10)):
        with transaction.atomic():
            chat = due_chat()
            queued.empty()
        if effort(0, 1):
            Schedule.objects.update(next_run=Now())
            wait_for(partial(folded_once, chat.pk), "a fold after a sweep on schedule", timeout=90)
        else:
            heal(chat.pk)


@pytest.mark.promise("P13")
def test_a_changed_secret_key(product: Product, fake: FakeUpstream) -> None:
    chat = due_chat()
    waiting = queued.payloads()
    product.expected = {"dropped a task that was signed with another key"}
    product.worker(DJANGO_SECRET_KEY="another-key-that-cannot-read-what-was-signed-before")
    wait_for(lambda: folded_once(chat.pk), "a fold after the sweep of a new worker")
    assert waiting
    assert not waiting & queued.payloads()


def test_a_server_killed_in_the_middle_of_a_stream(product: Product, fake: FakeUpstream) -> None:
    """The next begin finishes the dead server's reply, with the text of its last checkpoint."""
    product.env |= {"REPLY_LEASE_SECONDS": "1", "REPLY_CHECKPOINT_SECONDS": "0.05"}
    fake.behave("normal?deltas=50&hold_after=20", lane="stream")
    fake.hold("stream")
    server = product.server()
    client = product.client()
    with client.stream("POST", "message/first", json={"message": question(0)}) as events:
        chat_id = UUID(next(events).data["chat_id"])
        wait_for(lambda: ActiveReply.objects.get(pk=chat_id).text, "a checkpoint")
        said = ActiveReply.objects.get(pk=chat_id).text
        product.kill(server)
    fake.reset()

    product.server()
    again = product.client()
    wait_for(lambda: _is_answered(product, again.token, chat_id), "a turn that begins")
    cut, *_ = Message.objects.filter(chat=chat_id, role="assistant").order_by("seq")
    assert cut.status == Status.INCOMPLETE
    assert cut.content.startswith(said)
    assert cut.error is not None
    assert cut.error["code"] == "interrupted"
    assert not ActiveReply.objects.exists()
    assert len(fake.calls("stream")) == 1
    say(again, question(2), chat_id)


@pytest.mark.promise("P6")
def test_a_server_that_comes_back_finishes_what_was_left(product: Product, fake: FakeUpstream) -> None:
    product.env |= {"REPLY_LEASE_SECONDS": "1", "REPLY_CHECKPOINT_SECONDS": "0.05"}
    fake.behave("normal?deltas=50&hold_after=20", lane="stream")
    fake.hold("stream")
    server = product.server()
    with product.client().stream("POST", "message/first", json={"message": question(0)}) as events:
        chat_id = UUID(next(events).data["chat_id"])
        wait_for(lambda: ActiveReply.objects.get(pk=chat_id).text, "a checkpoint")
        said = ActiveReply.objects.get(pk=chat_id).text
        product.kill(server)
    product.server()
    wait_for(lambda: not ActiveReply.objects.exists(), "the end of the reply")
    cut = Message.objects.get(chat=chat_id, role="assistant")
    assert (cut.status, cut.content[: len(said)]) == (Status.INCOMPLETE, said)


def _is_answered(product: Product, token: str, chat_id: UUID) -> bool:
    """Whether the next turn is accepted: 409 until the lease of the dead server has run out."""
    client = product.clients[-1]
    assert client.token == token
    body = {"message": question(1), "chat_id": str(chat_id), "stream": False}
    status: int = client.post("message", json=body).status_code
    assert status in (200, 409)
    return status == 200
