"""The watchdog: after the death of any process, work continues, nothing is left behind, and it ends on a signal.

The process tree is read from /proc, so Linux only.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection, transaction

from memory.models import ConversationBrief, Watch, WorkerProcess
from memory.worker import watches
from tests.faults.bench.table import Tally
from tests.support.fakes.upstream import FakeUpstream
from tests.support.process_tree import left_of
from tests.support.process_watch import QUICK, Watched, due_chat, expect_deaths, is_folded
from tests.support.processes import POLL_SECONDS, Product, wait_for

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells processes apart by /proc"),
]

Start = Callable[..., Watched]
VICTIMS = ("worker 1", "monitor", "worker 2", "pusher", "sentinel", "main")
PROMISED = 120.0
"""Seconds."""
PATIENCE = float(QUICK["WORKER_PATIENCE_SECONDS"])


@pytest.fixture
def start(product: Product) -> Iterator[Start]:
    """Return a function that starts a worker. At the end, no process of any may be left."""
    started: list[Watched] = []

    def worker(**env: str) -> Watched:
        started.append(Watched(product, **env))
        return started[-1]

    yield worker
    product.stop()
    expect_deaths(product)
    assert [pid for one in started for pid in left_of(one.name)] == []


def passing(seconds: float) -> Iterator[float]:
    """Yield the seconds passed, for checks while time passes."""
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        yield passed
        time.sleep(POLL_SECONDS)


@pytest.mark.promise("P14", injected="`kill -9` of each process of an idle cluster in turn")
def test_whichever_is_killed_work_goes_on(
    start: Start, fake: FakeUpstream, tally: Tally, effort: Callable[[int, int], int]
) -> None:
    worker = start()
    longest = 0.0
    for victim in VICTIMS[: effort(2, 6)] * effort(1, 5):
        pid = worker.whole().cluster()[victim]
        killed = time.monotonic()
        worker.kill(pid)
        chat_id = due_chat()
        wait_for(lambda: is_folded(chat_id), f"a fold after the death of {victim}", timeout=60)  # noqa: B023
        longest = max(longest, time.monotonic() - killed)
        assert worker.whole().cluster()[victim] != pid
        assert worker.strangers() == set()
        tally()
    tally.note(f"the next fold was done {longest:.1f} s after the kill, with a patience of {PATIENCE:g} s")


@pytest.mark.promise("P14", injected="the same, with the settings as they come")
def test_by_default_work_goes_on_within_two_minutes(
    start: Start, fake: FakeUpstream, tally: Tally, effort: Callable[[int, int], int]
) -> None:
    if not effort(0, 1):
        pytest.skip("takes minutes: the long form")
    worker = start(WORKER_CANARY_SECONDS="5", WORKER_PATIENCE_SECONDS="30")
    longest = 0.0
    for victim in VICTIMS:
        killed = time.monotonic()
        worker.kill(worker.whole().cluster()[victim])
        chat_id = due_chat()
        wait_for(lambda: is_folded(chat_id), f"a fold after the death of {victim}", timeout=PROMISED)  # noqa: B023
        longest = max(longest, time.monotonic() - killed)
        tally()
    assert longest < PROMISED
    tally.note(f"the next fold was done {longest:.0f} s after the kill")


@pytest.mark.promise("P14", injected="the monitor of one of two clusters on one database killed")
def test_a_cluster_at_work_does_not_hide_one_that_has_frozen(
    start: Start, fake: FakeUpstream, product: Product
) -> None:
    """Each has its own canaries, which no other cluster takes."""
    frozen, other = start(), start()
    frozen.kill(frozen.family.monitor)
    replaced = "the cluster has frozen and is replaced"
    wait_for(lambda: product.logged(replaced, name=frozen.child.name), "a cluster that is replaced")
    (told,) = product.logged(replaced)
    assert told["symptom"] == "acknowledges nothing"
    assert frozen.whole().main != frozen.family.main
    assert other.whole() == other.family


@pytest.mark.promise("P14", injected="`kill -9` of a worker in the middle of a fold")
def test_what_a_killed_worker_was_at_is_taken_up_at_once(
    start: Start, fake: FakeUpstream, tally: Tally, effort: Callable[[int, int], int]
) -> None:
    """Long before its lease ends: the watchdog knows that its owner is dead."""
    worker = start(MEMORY_FOLD_LEASE_SECONDS="600", MEMORY_FOLD_BACKOFF_SECONDS="0.1")
    for _ in range(effort(1, 10)):
        worker.whole()
        fake.hold("complete")
        chat_id = due_chat()
        fake.wait_until(lambda it: it.held("complete") == 1)
        busy = wait_for(
            lambda: WorkerProcess.objects.filter(busy_since__isnull=False).first(), "a busy worker"
        )
        assert ConversationBrief.objects.get(pk=chat_id).lease_owner.startswith(busy.pk)
        worker.kill(busy.pid)
        fake.release("complete")
        wait_for(lambda: is_folded(chat_id), "a fold by another worker", timeout=60)  # noqa: B023
        tally()


@pytest.mark.promise(
    "P14", injected="all workers busy for twice the patience, then a database that hangs so long"
)
def test_a_cluster_that_cannot_answer_is_left_alone(
    start: Start, fake: FakeUpstream, settings: Any, tally: Tally
) -> None:
    worker = start()
    fake.hold("complete")
    chats = [due_chat() for _ in range(3)]
    fake.wait_until(lambda it: it.held("complete") == 2)
    settings.WORKER_PATIENCE_SECONDS = PATIENCE
    for _ in passing(2 * PATIENCE):
        assert watches.problem() is None, "readyz would say so"
    fake.release("complete")
    wait_for(lambda: all(map(is_folded, chats)), "all folds", timeout=60)
    tally()

    with transaction.atomic():  # on SQLite, nothing else can write now
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("LOCK TABLE memory_watch IN ACCESS EXCLUSIVE MODE")
        for _ in passing(2 * PATIENCE):
            assert worker.child.exit_code is None
    assert worker.whole() == worker.family
    tally()


@pytest.mark.promise("P14", injected="`kill -9` of the watchdog")
def test_nothing_outlives_the_watchdog_and_readyz_tells(
    start: Start, fake: FakeUpstream, product: Product
) -> None:
    product.env |= QUICK
    product.server()
    ready = f"{product.url}/readyz"
    told = httpx.get(ready)
    assert (told.status_code, set(told.json()["error"]["details"])) == (503, {"worker"})
    worker = start()
    wait_for(lambda: httpx.get(ready).status_code == 200, "a server that is ready")
    worker.kill(worker.child.process.pid)
    wait_for(lambda: left_of(worker.name) == [], "the end of all that it watched")
    wait_for(lambda: httpx.get(ready).status_code == 503, "a server that misses its worker")
    told = httpx.get(ready)
    assert told.json()["error"]["details"] == {"worker": ["No worker has answered for 3 s."]}
    start()
    wait_for(lambda: httpx.get(ready).status_code == 200, "a server that is ready again")


def test_told_to_end_it_ends_with_all_it_has(
    start: Start, fake: FakeUpstream, effort: Callable[[int, int], int]
) -> None:
    """Also in the middle of a fold that exceeds the stop time: its lease is free for others afterwards."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[: effort(1, 3)]:
        worker = start(WORKER_STOP_SECONDS="0.5")
        fake.hold("complete")
        due_chat()
        fake.wait_until(lambda it: it.held("complete") >= 1)
        worker.child.process.send_signal(number)
        assert worker.child.process.wait(20) == 0
        assert left_of(worker.name) == []
        assert not Watch.objects.exists()
        assert not ConversationBrief.objects.exclude(lease_owner="").exists()
        fake.release("complete")


def test_a_cluster_that_cannot_start_is_tried_again_ever_more_rarely(
    product: Product, tmp_path: Path
) -> None:
    """Something on this machine kills every watched process at once."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "os.register_at_fork(after_in_child=lambda: os._exit(1))\n"
        "if 'WORKER_WATCH' in os.environ: os._exit(1)\n"
    )
    worker = product.worker(PYTHONPATH=str(tmp_path), **QUICK)
    ended = "the cluster ended by itself"
    product.expected = {ended}
    wait_for(lambda: len(product.logged(ended)) == 2, "two clusters that ended")
    assert [line["code"] for line in product.logged(ended)] == [1, 1]
    worker.process.terminate()
    assert worker.process.wait(20) == 0
