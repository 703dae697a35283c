"""What the worker does with a task, and which workers are alive."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone
from django_q.models import Failure, OrmQ
from django_q.signing import SignedPackage
from django_q.tasks import async_task

from chatmemory.runtime import tracing
from chatmemory.runtime.logs import request_context
from memory import queue, tasks
from memory.folding import leases
from memory.models import ConversationBrief, Requested, Worker
from memory.worker import alive, loop
from tests.support.factories import brief_of, make_chat, make_user
from tests.support.spans import ids, recorded

pytestmark = pytest.mark.django_db


def payload() -> str:
    """The newest task in the queue, as it was signed."""
    return str(OrmQ.objects.latest("pk").payload)


def test_loop_drops_unknown_tasks(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Who can write to the queue, and knows the key, must not choose the code."""
    ran: list[Any] = []
    monkeypatch.setattr(tasks, "somebody_elses", lambda: ran.append(1), raising=False)
    async_task("memory.tasks.somebody_elses")
    loop.run_task(payload())
    loop.run_task(payload()[:-1] + "x")
    assert ran == []
    assert [record.message for record in caplog.records] == [
        "dropped a task with an unknown function",
        "dropped a task that was signed with another key",
    ]


def test_a_failure_is_kept_and_does_not_end_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: str) -> None:
        raise tasks.TaskFailed("it broke")

    monkeypatch.setattr(tasks, "fold_task", broken)
    queue.enqueue_fold(make_chat().key)
    loop.run_task(payload())
    failure = Failure.objects.get()
    assert (failure.func, failure.result) == (queue.FOLD_TASK, "TaskFailed: it broke")


def test_task_continues_trace_of_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a key that a worker of an older version ignores: it passes the arguments on, and they are as before."""
    seen: list[str] = []
    monkeypatch.setattr(tasks, "fold_task", lambda *_: seen.append(tracing.ids().get("span_id", "")))
    chat = make_chat()
    with recorded(monkeypatch) as spans:
        with request_context("request-1"), tracing.span("request"):
            queue.enqueue_fold(chat.key)
        task: dict[str, Any] = SignedPackage.loads(payload())
        assert (task["args"], task["kwargs"]) == ((str(chat.pk), "request-1"), {})
        loop.run_task(payload())
        queue.enqueue_fold(chat.key, lost=True)
        loop.run_task(payload())
        request = spans.one("request")
    assert seen == [ids(request)[1], ""]


def test_a_demand_that_lets_in_another_chat_is_not_its_cause() -> None:
    first, second = make_chat(), make_chat(make_user("alice"))
    for chat in (first, second):
        ConversationBrief.objects.filter(chat=brief_of(chat).chat).update(
            requested=Requested.REBUILD, on_demand_at=timezone.now()
        )
    with request_context("request-1"):
        leases.enqueue_demanded(second.key)
    task: dict[str, Any] = SignedPackage.loads(payload())
    assert task["args"] == (str(first.pk), "")


class OneTask:
    """A broker with one task, which the worker is told to end while it takes it."""

    def __init__(self, stopped: threading.Event) -> None:
        self._stopped = stopped

    def dequeue(self) -> list[tuple[int, str]]:
        self._stopped.set()
        return [(7, "payload")]

    def acknowledge(self, queue_id: int) -> None:
        raise LookupError(queue_id)


def test_a_worker_that_stops_waits_for_the_task_that_it_took_last(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Unexpected results of a task are logged."""
    stopped, begun, ended = threading.Event(), threading.Event(), []

    def run_task(payload: str) -> None:
        assert begun.wait(10)
        ended.append(payload)

    runner = loop.TaskRunner()
    monkeypatch.setattr(loop, "get_broker", lambda: OneTask(stopped))
    monkeypatch.setattr(loop, "run_task", run_task)
    monkeypatch.setattr(loop.TaskRunner, "_keep_time", lambda *_: stopped.wait(10))
    monkeypatch.setattr(alive, "leave", begun.set)  # only if the worker did not wait
    monkeypatch.setattr("time.sleep", lambda _: begun.set())
    assert runner.run(stopped)
    assert ended == ["payload"]
    assert "a task could not be run" in caplog.messages


def held_by(name: str) -> ConversationBrief:
    """Make a brief that the worker `name` holds for an hour."""
    brief = brief_of(make_chat())
    brief.lease_owner, brief.lease_expires_at = f"{name}:1", timezone.now() + timedelta(hours=1)
    brief.save(update_fields=["lease_owner", "lease_expires_at"])
    return brief


@pytest.mark.parametrize("seconds", [-31, 3600], ids=["late", "clock-set-back"])
def test_a_worker_that_gives_no_sign_is_dead_and_holds_nothing(seconds: int) -> None:
    assert alive.problem() == alive.NO_WORKER
    Worker.objects.create(name="there:1:a", seen_at=Now() + timedelta(seconds=seconds))
    assert alive.problem() == alive.problem("there") == alive.SILENT_WORKER  # it may be unable to write
    Worker.objects.create(name="there:2:b")
    dead, living = held_by("there:1:a"), held_by("there:2:b")
    assert alive.problem() is None
    assert alive.problem("elsewhere") == alive.NO_WORKER
    assert alive.remove_dead() == 1
    assert [row.name for row in Worker.objects.all()] == ["there:2:b"]
    assert brief_of(dead.chat).lease_owner == ""
    assert brief_of(living.chat).lease_owner == living.lease_owner
    alive.beat()
    alive.leave()
    assert [row.name for row in Worker.objects.all()] == ["there:2:b"]
