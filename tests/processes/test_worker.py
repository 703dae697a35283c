"""The worker: many folds at once in one process; after its death work goes on, and it ends on a signal."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import connection, transaction

from memory.models import ConversationBrief, SummaryRevision, Worker
from memory.worker.loop import HANGS
from tests.support.exhaustive import effort
from tests.support.fakes.upstream import FakeUpstream
from tests.support.processes import ROOT, Product
from tests.support.supervised import Supervised, due_chat, is_folded
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

Start = Callable[..., Supervised]
AT_ONCE = 40


@pytest.fixture
def start(product: Product) -> Iterator[Start]:
    """Return a function that starts a worker under a supervisor."""
    started: list[Supervised] = []

    def worker(**env: str) -> Supervised:
        started.append(Supervised(product, **env))
        return started[-1]

    yield worker
    for one in started:
        one.stop()


@pytest.mark.promise("P14")
def test_the_fold_of_a_killed_worker_is_resumed(start: Start, fake: FakeUpstream) -> None:
    """Long before its leases end: within half a minute, the next worker sees that their owner is dead."""
    worker = start(MEMORY_FOLD_LEASE_SECONDS="600", MEMORY_FOLD_BACKOFF_SECONDS="0.1")
    for _ in range(effort(1, 10)):
        fake.hold("complete")
        chats = [due_chat() for _ in range(3)]
        fake.wait_until(lambda it: it.held("complete") == 3)
        worker.kill()
        fake.release("complete")
        wait_for(lambda: all(map(is_folded, chats)), "folds by the next worker", timeout=60)  # noqa: B023
        worker.wait_until_alive()
    assert [row.name for row in Worker.objects.all() if f":{worker.pid}:" not in row.name] == []


@pytest.mark.promise("P15")
def test_a_hanging_database_is_waited_for(start: Start, fake: FakeUpstream) -> None:
    worker = start()
    pid = worker.pid
    with transaction.atomic():  # on SQLite, nothing else can write now
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("LOCK TABLE memory_worker, django_q_ormq IN ACCESS EXCLUSIVE MODE")
        time.sleep(10)
    chat_id = due_chat()
    wait_for(lambda: is_folded(chat_id), "a fold", timeout=60)
    assert worker.pid == pid


def test_sigterm_leaves_no_lease_or_process(product: Product, fake: FakeUpstream) -> None:
    """Also in the middle of a fold that exceeds the stop time: its lease is free for others afterwards."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[: effort(1, 3)]:
        worker = product.worker(WORKER_STOP_SECONDS="0.5")
        fake.hold("complete")
        due_chat()
        fake.wait_until(lambda it: it.held("complete") >= 1)
        product.manage("worker", "--check")
        worker.process.send_signal(number)
        assert worker.process.wait(20) == 0
        assert not Worker.objects.exists()
        assert not ConversationBrief.objects.exclude(lease_owner="").exists()
        fake.release("complete")


def test_sigterm_waits_for_running_folds(product: Product, fake: FakeUpstream) -> None:
    worker = product.worker(WORKER_STOP_SECONDS="30")
    fake.hold("complete")
    chat_id = due_chat()
    fake.wait_until(lambda it: it.held("complete") == 1)
    worker.process.terminate()
    fake.release("complete")
    assert worker.process.wait(40) == 0
    assert is_folded(chat_id)


def test_worker_folds_many_chats_at_once(product: Product, fake: FakeUpstream) -> None:
    """Each waits for the summarizer in a thread, and holds no connection to the database meanwhile."""
    fake.hold("complete")
    chats = [due_chat() for _ in range(AT_ONCE)]
    product.worker(WORKER_THREADS=str(AT_ONCE))
    fake.wait_until(lambda it: it.held("complete") == AT_ONCE)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            assert cursor.fetchone()[0] <= 12, "those of the worker's pool, and this one"
    fake.release("complete")
    wait_for(lambda: all(map(is_folded, chats)), "all folds", timeout=90)
    assert SummaryRevision.objects.filter(chat__in=chats).count() == AT_ONCE


def test_a_hanging_task_ends_the_process(product: Product, fake: FakeUpstream) -> None:
    """A thread cannot be ended, so the process is, and its supervisor starts it again."""
    fake.hold("complete")
    due_chat()
    quick = "import chatmemory.settings as settings; settings.Q_TIMEOUT = 1; import manage; manage.main()"
    worker = subprocess.Popen(
        [sys.executable, "-c", quick, "worker"],
        cwd=ROOT,
        env=product.environment({}),
        stdout=subprocess.DEVNULL,
    )
    try:
        assert worker.wait(60) == HANGS
    finally:
        worker.kill()
    fake.release("complete")


def test_django_q2s_own_cluster_works_too(product: Product, fake: FakeUpstream) -> None:
    chat_id = due_chat()
    product.cluster()
    wait_for(lambda: is_folded(chat_id), "a fold by `manage.py qcluster`", timeout=90)
