"""Folding with concurrent workers, repeated tasks and dying workers; and what is queued when."""

from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from django_q.models import OrmQ

from chatmemory.database.owned import ChatKey
from chatmemory.llm.protocol import Prompt
from conversations.chat_lifecycle import delete_chat
from conversations.message_changes import edit_message
from conversations.models import Message
from conversations.replies.begin import begin_turn, default_variant
from conversations.replies.reply import BegunTurn, TurnRequest
from memory import queue, tasks
from memory.briefs import unfolded
from memory.folding import leases
from memory.folding.fold import FoldReport, fold
from memory.models import ConversationBrief
from tests.support.factories import add_turn, add_turns, brief_of, make_chat
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import (
    Killed,
    asked_codes,
    assert_folded,
    chat_of,
    revisions,
    run_fold,
    together,
    turn,
    wait_over,
)

pytestmark = [pytest.mark.usefixtures("sound"), pytest.mark.postgres, pytest.mark.pgbouncer]

# Races, repetitions, crashes


def test_a_held_lease_sends_others_away_and_runs_out(model: KeepingModel) -> None:
    chat = chat_of(12)
    later = timezone.now() + timedelta(minutes=1)
    ConversationBrief.objects.filter(chat=chat).update(lease_owner="somebody", lease_expires_at=later)
    assert run_fold(chat).outcome == "idle"
    assert model.prompts == []
    ConversationBrief.objects.filter(chat=chat).update(lease_expires_at=timezone.now() - timedelta(seconds=5))
    assert run_fold(chat).outcome == "done"


def test_the_lease_is_held_during_the_call(model: KeepingModel, settings: Any) -> None:
    chat = chat_of(12)
    seen: list[ConversationBrief] = []

    def look(prompt: Prompt) -> str:
        seen.append(brief_of(chat))
        return "T1 T2 T3"

    model.lines = [look]
    run_fold(chat)
    expires = seen[0].lease_expires_at
    assert seen[0].lease_owner
    assert seen[0].attempts == 1
    assert expires is not None
    wanted = settings.MEMORY_FOLD_LEASE_SECONDS
    assert wanted - 10 < (expires - timezone.now()).total_seconds() <= wanted + 1


@pytest.mark.promise("P10")
def test_publish_refuses_another_epoch(model: KeepingModel) -> None:
    chat = chat_of(12)

    def meanwhile(prompt: Prompt) -> str:
        edit_message(chat, Message.objects.get(chat=chat, seq=1).pk, "T777 edited")
        return "SECRET what was taken out"

    model.lines = [meanwhile]
    report = run_fold(chat)
    assert report.lost == 1
    assert report.outcome == "done"
    assert "SECRET" not in "".join(row.global_summary for row in revisions(chat))
    assert "T777" in brief_of(chat).global_summary


def test_fold_that_lost_the_race_drops_its_answer(model: KeepingModel) -> None:
    chat = chat_of(12)

    def overtaken(prompt: Prompt) -> str:
        ConversationBrief.objects.filter(chat=chat).update(lease_owner="", lease_expires_at=None, next_attempt_at=None)
        assert run_fold(chat).outcome == "done"
        return "T555 too late"

    model.lines = [overtaken]
    run_fold(chat)
    assert "T555" not in "".join(row.global_summary for row in revisions(chat))
    assert_folded(chat, through=brief_of(chat).folded_through_seq // 2)


def test_a_chat_deleted_during_the_call_leaves_nothing_behind(model: KeepingModel) -> None:
    chat = chat_of(12)

    def gone(prompt: Prompt) -> str:
        delete_chat(chat)
        return "T1"

    model.lines = [gone]
    assert run_fold(chat).published == 0
    assert revisions(chat) == []


def test_a_turn_finished_during_the_call_is_counted(model: KeepingModel) -> None:
    chat = chat_of(12)

    def meanwhile(prompt: Prompt) -> str:
        add_turn(chat, *turn(13))
        return "T1 T2 T3"

    model.lines = [meanwhile]
    run_fold(chat)
    brief = brief_of(chat)
    assert unfolded(brief).turns + brief.folded_through_seq // 2 == 13


@pytest.mark.promise("P10")
@pytest.mark.django_db(transaction=True)
def test_eight_racing_folds_of_one_chat_fold_each_turn_once(model: KeepingModel) -> None:
    chat = chat_of(40)
    together(*[partial(tasks.fold_task, str(chat.pk))] * 8)
    brief = brief_of(chat)
    assert not brief.due
    assert brief.folded_through_seq > 0
    assert_folded(chat, through=brief.folded_through_seq // 2)
    flat = [code for call in asked_codes(model) for code in call]
    assert flat == [f"T{number}" for number in range(1, len(flat) + 1)]


@pytest.mark.promise("P10")
@pytest.mark.parametrize(
    "step",
    ["memory.folding.fold.ask_summarizer", "memory.folding.fold.publish", "memory.models.ConversationBrief.save"],
    ids=["asking", "before publishing", "within its transaction"],
)
def test_a_crash_at_any_step_publishes_nothing_and_wastes_a_call_at_worst(
    model: KeepingModel, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    chat = chat_of(12)

    def killed(*args: Any, **kwargs: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(step, killed)
        with pytest.raises(Killed):
            run_fold(chat)
    assert revisions(chat) == []
    assert brief_of(chat).version == 0
    wait_over(chat)
    run_fold(chat)
    assert_folded(chat, through=brief_of(chat).folded_through_seq // 2)


# Time and the queue


def test_a_task_whose_time_is_up_queues_itself_again(model: KeepingModel, settings: Any) -> None:
    settings.MEMORY_FOLD_SECONDS = 0.001
    chat = chat_of(30)
    OrmQ.objects.all().delete()
    tasks.fold_task(str(chat.pk), "req-1")
    assert brief_of(chat).version == 1
    (queued,) = OrmQ.objects.all()
    assert queued.func() == "memory.tasks.fold_task"
    assert queued.task["args"] == (str(chat.pk), "req-1")


def test_a_turn_that_ends_while_a_task_finds_nothing_queues_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the turn, only the task is known that is about to end."""
    chat = chat_of(1)
    queue.enqueue_fold(chat.key)

    def find_nothing(key: ChatKey, *, until: float) -> FoldReport:
        report = fold(key, until=until)
        assert report.outcome == "idle"
        add_turns(chat, [turn(number) for number in range(2, 13)])
        return report

    monkeypatch.setattr("memory.folding.fold.fold", find_nothing)
    assert OrmQ.objects.count() == 1
    tasks.fold_task(str(chat.pk))
    assert brief_of(chat).due
    assert OrmQ.objects.count() == 2


def test_a_worker_taken_for_dead_publishes_and_leaves_the_rest_to_others(model: KeepingModel) -> None:
    chat = chat_of(60)

    def taken_for_dead(prompt: Prompt) -> str:
        ConversationBrief.objects.filter(chat=chat).update(lease_owner="", lease_expires_at=None)
        return "T1 T2 T3"

    model.lines = [taken_for_dead]
    OrmQ.objects.all().delete()
    tasks.fold_task(str(chat.pk))
    brief = brief_of(chat)
    assert (brief.version, brief.due) == (1, True)
    assert OrmQ.objects.count() == 1


def test_an_owners_next_demand_is_queued_even_if_turns_ended_meanwhile(monkeypatch: Any) -> None:
    chat = chat_of(12)
    other = make_chat(chat.owner)
    ConversationBrief.objects.update(requested="rebuild", on_demand_at=timezone.now(), queued_at=None)
    is_due_again = ConversationBrief.objects.filter(chat=chat, version__gt=0)
    monkeypatch.setattr("chatmemory.runtime.fault_points.point", lambda _: is_due_again.update(due=True))
    tasks.fold_task(str(chat.pk))
    assert brief_of(other).queued_at
    is_due_again.update(due=False)


@pytest.mark.django_db(transaction=True)
def test_request_update_does_not_wait_for_earlier_request() -> None:
    """Else two changes by one user, each of which holds a chat and waits for a row of the other, would deadlock."""
    if connection.vendor != "postgresql":
        pytest.skip("the database has only one writer")
    chat = chat_of(12)
    other = make_chat(chat.owner)
    held, done = Event(), Event()
    for one, hours in ((chat, 2), (other, 1)):
        since = timezone.now() - timedelta(hours=hours)
        ConversationBrief.objects.filter(chat=one).update(requested="rebuild", on_demand_at=since, queued_at=None)

    def change() -> None:
        with transaction.atomic():
            ConversationBrief.objects.select_for_update().get(chat=chat)
            held.set()
            assert done.wait(timeout=10)

    def demand() -> None:
        assert held.wait(timeout=10)
        with transaction.atomic():
            leases.enqueue_if_ready(brief_of(other))
        done.set()

    OrmQ.objects.all().delete()
    together(change, demand)
    leases.enqueue_if_ready(brief_of(other))
    (queued,) = OrmQ.objects.all()
    assert queued.task["args"][0] == str(chat.pk)


def test_turns_kept_until_end_of_reply_have_no_texts() -> None:
    """A thousand replies that are written at once must not hold the chats' messages, one of which may be a megabyte."""
    chat = chat_of(3)
    request = TurnRequest(message="And now?", variant=default_variant())
    begun = begin_turn(chat.owner, request, chat_id=chat.pk)
    assert isinstance(begun, BegunTurn)
    known = begun.pending.memory_at_start
    assert known is not None
    assert [turn.tokens > 0 for turn in known.turns] == [True] * 3
    assert not any((turn.user, turn.assistant, turn.answer) != ("", "", "") for turn in known.turns)
