"""The rows that watch a cluster, and a canary task's way through the queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.functions import Now
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import OrmQ, Schedule
from django_q.signing import SignedPackage

from memory import queue, tasks
from memory.folding import lease
from memory.models import ConversationBrief, Watch, WorkerProcess
from memory.worker import heartbeat, watches
from memory.worker.liveness import Facts
from tests.support.factories import add_turns, make_chat

pytestmark = pytest.mark.django_db(transaction=True)

ME, OTHER = "a watchdog", "another watchdog"


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process one of the cluster that `ME` watches."""
    monkeypatch.setenv(heartbeat.VARIABLE, ME)
    Watch.objects.create(pk=ME)


def taken() -> list[Any]:
    """The task that the cluster's pusher would take next, as a list of at most one."""
    return [SignedPackage.loads(payload) for _, payload in get_broker().dequeue() or []]


def canary(number: int) -> dict[str, Any]:
    """A canary task as the monitor sees it when it is done."""
    return {"func": heartbeat.CANARY_TASK, "args": (ME, number), "success": True}


def test_a_canary_goes_before_all_other_tasks_to_its_own_cluster_alone(inside: None) -> None:
    queue.enqueue_sweep()
    watches.send(OTHER, 1)
    watches.send(ME, 7)
    first, *_ = taken()
    assert (first["func"], first["args"]) == (heartbeat.CANARY_TASK, (ME, 7))
    assert [task["func"] for task in taken()] == [queue.SWEEP_TASK]
    assert taken() == []
    assert queue.waiting_tasks() == 0, "canaries are not work that waits"


def test_no_two_canaries_wait(inside: None) -> None:
    queue.enqueue_sweep()
    for number in range(3):
        watches.send(ME, number)
    assert sorted(OrmQ.objects.values_list("key", flat=True)) == [ME, "chatmemory"]


def test_a_canary_is_done_and_then_acknowledged(inside: None) -> None:
    assert watches.look(ME, lambda _: True) == Facts(0, 0, all_busy=False)
    tasks.canary_task(ME, 3)
    assert watches.look(ME, lambda _: True) == Facts(3, 0, all_busy=False)
    assert watches.problem() == watches.NEVER
    heartbeat.acknowledged(canary(3))
    heartbeat.acknowledged(canary(2))  # an older one that arrives late
    heartbeat.acknowledged(canary(9) | {"success": False})
    heartbeat.acknowledged(canary(9) | {"func": queue.SWEEP_TASK})
    assert watches.look(ME, lambda _: True) == Facts(3, 3, all_busy=False)
    assert watches.problem() is None


def test_a_watch_whose_row_is_gone_begins_again() -> None:
    assert watches.look(ME, lambda _: True) == Facts(0, 0, all_busy=False)
    assert Watch.objects.get().pk == ME


def test_a_cluster_is_busy_when_all_its_workers_are(inside: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_busy() -> bool:
        return watches.look(ME, lambda _: True).all_busy

    for number in (1, 2):
        monkeypatch.setattr("chatmemory.runtime.process_id.name", lambda number=number: f"worker {number}")
        heartbeat.spawned()
        heartbeat.begun({"func": heartbeat.CANARY_TASK})
        assert not is_busy()
        heartbeat.begun({"func": queue.FOLD_TASK})
        assert is_busy() is (number == 2)
    heartbeat.ended({"func": heartbeat.CANARY_TASK})
    assert is_busy()
    heartbeat.ended({"func": queue.FOLD_TASK})
    assert not is_busy()
    WorkerProcess.objects.update(busy_since=Now() - watches.longest_task() - timedelta(seconds=1))
    assert not is_busy(), "no task may take so long"


def test_what_a_dead_worker_held_is_free_at_once(inside: None) -> None:
    heartbeat.spawned()
    chat = make_chat()
    add_turns(chat, [(f"question {number} " * 200, "answer") for number in range(40)])
    assert lease.take(chat.pk)
    OrmQ.objects.all().delete()
    watches.look(ME, lambda _: True)
    assert lease.take(chat.pk) is None
    assert not OrmQ.objects.exists()

    watches.look(ME, lambda _: False)
    assert not WorkerProcess.objects.exists()
    assert ConversationBrief.objects.get(pk=chat.pk).lease_owner == ""
    assert [task["func"] for task in taken()] == [queue.SWEEP_TASK]


def test_a_watch_that_ends_leaves_nothing(inside: None) -> None:
    heartbeat.spawned()
    watches.send(ME, 1)
    watches.end(ME)
    for model in (Watch, WorkerProcess, OrmQ):
        assert not model._default_manager.exists()


def test_a_watch_that_was_abandoned_is_removed_after_a_day() -> None:
    Watch.objects.create(pk=ME)
    Watch.objects.create(pk=OTHER, seen_at=timezone.now() - watches.KEEP - timedelta(minutes=1))
    WorkerProcess.objects.create(pk="x", watch_id=OTHER, pid=1)
    watches.remove_abandoned()
    assert list(Watch.objects.values_list("pk", flat=True)) == [ME]


@pytest.mark.parametrize(("late", "queued"), [(100, 0), (300, 1)])
def test_a_scheduler_that_stands_still_is_stood_in_for(late: int, queued: int) -> None:
    Schedule.objects.update(next_run=timezone.now() - timedelta(seconds=late))
    watches.sweep_if_late()
    assert OrmQ.objects.count() == queued


@pytest.mark.parametrize(
    "told",
    [
        heartbeat.spawned,
        lambda: heartbeat.begun({"func": queue.FOLD_TASK}),
        lambda: heartbeat.ended({"func": queue.FOLD_TASK}),
        lambda: heartbeat.acknowledged(canary(1)),
        lambda: tasks.canary_task(ME, 1),
    ],
    ids=["spawned", "begun", "ended", "acknowledged", "canary"],
)
def test_without_a_database_a_worker_goes_on_in_silence(
    told: Callable[[], None], inside: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception in django-q2's signals would end its process."""

    def away(self: BaseDatabaseWrapper) -> None:
        raise OperationalError("away")

    with monkeypatch.context() as patched:
        connection.close()
        patched.setattr(BaseDatabaseWrapper, "connect", away)
        told()
    assert not WorkerProcess.objects.exists()


def test_a_database_that_was_never_migrated_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection.introspection, "table_names", lambda: ["auth_user"])
    monkeypatch.setattr(MigrationRecorder, "applied_migrations", lambda _recorder: {})
    with pytest.raises(CommandError, match=r"is not migrated .* run `manage.py migrate`"):
        call_command("worker")
