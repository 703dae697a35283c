"""The sweep: what a crash or a lost queue left behind is found from the tables."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from django_q.models import OrmQ, Task
from knox.models import AuthToken

from conversations.models import IdempotencyKey, Message
from memory import queue, tasks
from memory.folding.request import request_resummarize
from memory.models import ConversationBrief
from memory.worker import sweep as sweeping
from memory.worker.sweep import sweep
from tests.support.commands import run
from tests.support.factories import brief_of, make_user
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import DOWN, assert_folded, chat_of, fail_until_given_up, run_fold, wait_over

pytestmark = pytest.mark.django_db


def queued() -> list[str]:
    """The ids of the chats whose folds are queued."""
    return [one.task["args"][0] for one in OrmQ.objects.order_by("pk") if one.func() == "memory.tasks.fold_task"]


def emptied() -> None:
    OrmQ.objects.all().delete()


def work_off() -> None:
    """Run the queued tasks, as a worker does."""
    for one in list(OrmQ.objects.order_by("pk")):
        one.delete()
        if one.func() == "memory.tasks.fold_task":
            tasks.fold_task(*one.task["args"])


def test_a_lost_queue_is_healed(model: KeepingModel) -> None:
    due, short = chat_of(12), chat_of(2)
    emptied()
    assert sweep()["chats_enqueued"] == 1
    assert queued() == [str(due.pk)]
    work_off()
    assert_folded(due, through=9)
    assert not brief_of(due).due
    assert sweep()["chats_enqueued"] == 0
    assert brief_of(short).version == 0


def test_a_chat_of_which_a_task_waits_gets_no_other(model: KeepingModel) -> None:
    chat = chat_of(12)
    assert queued() == [str(chat.pk)]
    for _ in range(3):
        assert sweep()["chats_enqueued"] == 0
        request_resummarize(chat, "update")
    assert queued() == [str(chat.pk)]
    work_off()
    request_resummarize(chat, "update")
    assert queued() == [str(chat.pk)], "one that was taken waits no more"


def test_sweep_skips_waiting_and_leased_briefs(model: KeepingModel) -> None:
    waiting, leased = chat_of(12), chat_of(12)
    emptied()
    later = timezone.now() + timedelta(minutes=1)
    ConversationBrief.objects.filter(chat=waiting).update(next_attempt_at=later, attempts=1)
    ConversationBrief.objects.filter(chat=leased).update(lease_owner="somebody", lease_expires_at=later)
    assert sweep()["chats_enqueued"] == 0
    wait_over(waiting)
    past = timezone.now() - timedelta(seconds=5)
    ConversationBrief.objects.filter(chat=leased).update(lease_expires_at=past)
    assert sweep()["chats_enqueued"] == 2


def test_a_dead_upstream_is_asked_again_by_the_sweep_and_the_chat_rebuilt(model: KeepingModel) -> None:
    chat = chat_of(12)
    fail_until_given_up(chat, model)
    emptied()
    assert sweep()["chats_enqueued"] == 0
    wait_over(chat)
    model.lines = [DOWN]
    sweep()
    work_off()
    assert (brief_of(chat).degraded, brief_of(chat).attempts) == (True, 6)
    wait_over(chat)
    sweep()
    work_off()
    assert not brief_of(chat).degraded
    assert_folded(chat, through=9)


def test_due_chats_do_not_wait_for_an_upstream_that_was_given_up(model: KeepingModel) -> None:
    chat = chat_of(12)
    later = timezone.now() + timedelta(minutes=5)
    ConversationBrief.objects.filter(chat=chat).update(attempts=5, next_attempt_at=later)
    emptied()
    assert sweep()["chats_enqueued"] == 1
    run_fold(chat)
    assert brief_of(chat).degraded


def test_a_full_queue_gets_no_more(model: KeepingModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "MAX_QUEUED", 3)
    for _ in range(5):
        chat_of(12)
    emptied()
    assert sweep()["chats_enqueued"] == 3
    monkeypatch.setattr(queue, "waiting_tasks", lambda: 3)
    assert sweep()["chats_enqueued"] == 0


def test_expired_rows_go_and_young_ones_stay(model: KeepingModel) -> None:
    chat, user, now = chat_of(1), make_user(), timezone.now()
    question = Message.objects.get(chat=chat, seq=1)
    for key, hours in (("old", 25), ("young", 23)):
        IdempotencyKey.objects.create(
            user=user,
            key=key,
            request_hash="",
            chat=chat,
            user_message_id=question.pk,
            message_id=question.pk,
            created_at=now - timedelta(hours=hours),
        )
    AuthToken.objects.create(user, expiry=timedelta(seconds=-5))
    AuthToken.objects.create(user, expiry=timedelta(hours=1))
    AuthToken.objects.create(user)
    for name, days in (("a", 8), ("b", 6)):
        at = now - timedelta(days=days)
        Task.objects.create(id=name * 32, name=name, func="f", started=at, stopped=at, success=False)
    for name, days in (("c", -1), ("d", 1)):
        Session.objects.create(session_key=name, expire_date=now + timedelta(days=days))
    report = sweep()
    kinds = ("keys", "tokens", "sessions", "failures")
    assert [report[f"{kind}_removed"] for kind in kinds] == [1, 1, 1, 1]
    assert Session.objects.get().session_key == "d"
    assert IdempotencyKey.objects.get().key == "young"
    assert AuthToken.objects.count() == 2
    assert Task.objects.get().name == "b"


def test_sweep_command_prints_findings(model: KeepingModel) -> None:
    chat_of(12)
    emptied()
    assert "1 chats enqueued" in run("sweep").splitlines()
