"""A queue that was lost: the work is done anyway, and once."""

from functools import partial
from uuid import UUID

import pytest
from django.db import transaction
from django.db.models.functions import Now
from django_q.models import OrmQ, Schedule

from memory.briefs import unfolded
from memory.models import SummaryRevision
from tests.processes.talking import settled
from tests.support.exhaustive import effort
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import Product
from tests.support.supervised import due_chat
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.pgbouncer]


def folded_once(chat_id: UUID) -> bool:
    """Whether it is at rest, with every turn in one revision; the invariants check the rest when the test ends."""
    brief = settled(chat_id)
    if brief is None or not brief.version:
        return False
    spans = SummaryRevision.objects.filter(chat=chat_id).values_list("turns", flat=True)
    assert sum(spans) + unfolded(brief).turns == 40
    return True


@pytest.mark.promise("P13")
def test_a_queue_emptied_while_a_worker_runs(product: Product, fake: FakeUpstream) -> None:
    """The scheduled sweep finds the chat; the worker looks at the schedule every 30 s."""
    product.worker()
    wait_for(lambda: product.logged("swept"), "a worker at work", timeout=60)
    for _ in range(effort(1, 10)):
        with transaction.atomic():
            chat_id = due_chat()
            OrmQ.objects.all().delete()
        Schedule.objects.update(next_run=Now())
        wait_for(partial(folded_once, chat_id), "a fold after a sweep on schedule", timeout=90)


@pytest.mark.promise("P13")
def test_a_changed_secret_key(product: Product, fake: FakeUpstream) -> None:
    chat_id = due_chat()
    waiting = set(OrmQ.objects.values_list("payload", flat=True))
    product.expected = {"dropped a task that was signed with another key"}
    product.worker(DJANGO_SECRET_KEY="another-key-that-cannot-read-what-was-signed-before")
    wait_for(lambda: folded_once(chat_id), "a fold after the sweep of a new worker")
    assert waiting
    assert not OrmQ.objects.filter(payload__in=waiting).exists()
