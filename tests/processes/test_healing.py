"""A queue that was lost, and a reply whose server was killed: the work is done anyway, and once."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import pytest
from django.db import transaction
from django.db.models.functions import Now
from django_q.models import OrmQ, Schedule

from conversations.models import ActiveReply, Chat, Message, Status
from memory.briefs import unfolded
from memory.models import ConversationBrief, SummaryRevision
from tests.processes.talking import question, settled
from tests.support.exhaustive import effort
from tests.support.factories import add_turns, make_chat
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def due_chat() -> Chat:
    """Make a chat with 40 turns that is due, as an import leaves it: its fold is in the queue."""
    chat = make_chat()
    add_turns(chat, [(question(number), "Noted.") for number in range(40)])
    assert ConversationBrief.objects.get(pk=chat.pk).due
    assert OrmQ.objects.exists()
    return chat


def folded_once(chat_id: UUID) -> bool:
    """Whether it is at rest, with every turn in one revision; the invariants check the rest when the test ends."""
    brief = settled(chat_id)
    if brief is None or not brief.version:
        return False
    spans = SummaryRevision.objects.filter(chat=chat_id).values_list("turns", flat=True)
    assert sum(spans) + unfolded(brief).turns == 40
    return True


@pytest.mark.promise("P13")
def test_an_emptied_queue(product: Product, fake: FakeUpstream) -> None:
    chat = due_chat()
    OrmQ.objects.all().delete()
    product.worker()
    # No sweep from here: a worker that starts makes one.
    wait_for(lambda: folded_once(chat.pk), "a fold after the sweep of a new worker")


@pytest.mark.promise("P13")
def test_a_queue_emptied_while_a_worker_runs(product: Product, fake: FakeUpstream) -> None:
    """The scheduled sweep finds the chat; the worker looks at the schedule every 30 s."""
    product.worker()
    wait_for(lambda: product.logged("swept"), "a worker at work", timeout=60)
    for _ in range(effort(1, 10)):
        with transaction.atomic():
            chat = due_chat()
            OrmQ.objects.all().delete()
        Schedule.objects.update(next_run=Now())
        wait_for(partial(folded_once, chat.pk), "a fold after a sweep on schedule", timeout=90)


@pytest.mark.promise("P13")
def test_a_changed_secret_key(product: Product, fake: FakeUpstream) -> None:
    chat = due_chat()
    waiting = set(OrmQ.objects.values_list("payload", flat=True))
    product.expected = {"dropped a task that was signed with another key"}
    product.worker(DJANGO_SECRET_KEY="another-key-that-cannot-read-what-was-signed-before")
    wait_for(lambda: folded_once(chat.pk), "a fold after the sweep of a new worker")
    assert waiting
    assert not OrmQ.objects.filter(payload__in=waiting).exists()


@pytest.mark.promise("P6")
def test_a_restarted_server_finishes_open_replies(product: Product, fake: FakeUpstream) -> None:
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
