"""The work a user causes memory to do beyond their turns: counted, one task at a time, after chats that are due.

None of the limits keeps a text from being deleted.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from django_q.models import OrmQ

from conversations.accounts.models import Allowance, Window
from conversations.models import Chat, Message
from memory import tasks
from memory.models import ConversationBrief
from memory.worker.sweep import sweep
from tests.api.talking import error
from tests.support.exhaustive import first_of
from tests.support.factories import brief_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import chat_of
from tests.support.live_server import Client

LIMIT = {"limit": "resummarize_per_hour", "allowed": 3}
HOUR = 3600


@pytest.fixture(autouse=True)
def small(settings: Any, upstream: FakeUpstream) -> None:
    """Thirty tokens per turn, three turns per batch; three rebuilds per hour; a summarizer that keeps every code."""
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 200
    settings.MEMORY_FOLD_BITE_TOKENS = 100
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 100_000
    settings.MEMORY_MIN_RETAINED = 0
    settings.LIMIT_RESUMMARIZE_PER_HOUR = 3


def folded_chat(turns: int = 12, name: str = "alice") -> Chat:
    chat = chat_of(turns, name)
    work()
    assert brief_of(chat).head
    return chat


def queued() -> list[str]:
    """Return the chats with a queued fold, oldest first."""
    found = [one.task for one in OrmQ.objects.order_by("pk")]
    return [task["args"][0] for task in found if task["func"] == "memory.tasks.fold_task"]


def work_once() -> None:
    """Run the oldest task as a worker would."""
    row = OrmQ.objects.order_by("pk").first()
    assert row is not None
    row.delete()
    if row.func() == "memory.tasks.fold_task":
        tasks.fold_task(*row.task["args"])


def work() -> None:
    """Work until the queue is empty."""
    while OrmQ.objects.exists():
        work_once()


def resummarize(client: Client, chat: Chat, mode: str = "rebuild") -> httpx.Response:
    answer: httpx.Response = client.post(f"chats/{chat.pk}/resummarize", json={"mode": mode})
    return answer


def accepted(answer: httpx.Response) -> str:
    assert answer.status_code == 202, answer.text
    return str(answer.json()["task_id"])


def count_rebuilds(name: str = "alice") -> int:
    key = str(User.objects.get(username=name).pk)
    return Window.objects.filter(kind="resummarize_per_hour", key=key).values_list("count", flat=True).first() or 0


def use_up(client: Client, chat: Chat) -> None:
    for _ in range(3):
        accepted(resummarize(client, chat))
        work()


def summarizer_calls(upstream: FakeUpstream) -> int:
    return len(upstream.calls("complete"))


def test_while_one_waits_another_is_the_same(alice: Client) -> None:
    chat = folded_chat()
    names = {accepted(resummarize(alice, chat, mode)) for mode in ("rebuild", "rebuild", "update", "rebuild")}
    (row,) = OrmQ.objects.all()
    assert names == {row.name()}
    assert count_rebuilds() == 1
    work()
    assert accepted(resummarize(alice, chat)) not in names


def test_a_larger_wish_is_counted_and_joins_the_task_that_waits(alice: Client) -> None:
    chat = folded_chat()
    assert accepted(resummarize(alice, chat, "update")) == accepted(resummarize(alice, chat, "rebuild"))
    assert (len(queued()), count_rebuilds(), brief_of(chat).requested) == (1, 2, "rebuild")


ORDERS: dict[str, Callable[[Client, Chat], httpx.Response]] = {
    "rebuild": resummarize,
    "policy": lambda client, chat: client.patch(f"chats/{chat.pk}", json={"policy": "interval", "title": "New"}),
    "options": lambda client, chat: client.patch(f"chats/{chat.pk}", json={"options": {"k_raw_turns": 4}}),
    "restore": lambda client, chat: client.post(f"chats/{chat.pk}/revisions/1/restore"),
}


@pytest.mark.parametrize("order", first_of(ORDERS.values()), ids=ORDERS)
def test_rebuilds_are_counted_and_refused_beyond_the_hours(alice: Client, upstream: FakeUpstream, order: Any) -> None:
    assert order(alice, folded_chat()).status_code in (200, 202)
    assert count_rebuilds() == 1
    Window.objects.all().delete()
    chat = folded_chat()
    use_up(alice, chat)
    before = ConversationBrief.objects.filter(pk=chat.pk).values().get()
    calls = summarizer_calls(upstream)
    refused = order(alice, chat)
    assert error(refused, 429, "rate_limited")["details"] == LIMIT
    assert HOUR - 60 < int(refused.headers["Retry-After"]) <= HOUR
    assert ConversationBrief.objects.filter(pk=chat.pk).values().get() == before
    assert Chat.objects.get(pk=chat.pk).title == ""
    assert queued() == []
    assert summarizer_calls(upstream) == calls
    Window.objects.update(since=timezone.now() - timedelta(hours=1, seconds=1))
    assert order(alice, chat).status_code in (200, 202)
    assert count_rebuilds() == 1


@pytest.mark.promise("P31")
@pytest.mark.parametrize("order", first_of(ORDERS.values()), ids=ORDERS)
def test_rebuild_with_spent_day_is_refused(alice: Client, settings: Any, order: Any) -> None:
    chat = folded_chat()
    settings.LIMIT_TOKENS_PER_DAY = 6000
    today = timezone.now().date()
    Allowance.objects.update_or_create(user=chat.owner, defaults={"day": today, "day_tokens": 4500})
    refused = order(alice, chat)
    assert error(refused, 429, "quota_exceeded")["details"] == {"limit": "tokens_per_day", "allowed": 6000}
    assert int(refused.headers["Retry-After"]) >= 1
    assert queued() == []


def test_a_chat_without_messages_changes_its_policy_for_nothing(alice: Client) -> None:
    for _ in range(5):
        chat = alice.post("chats", json={}).json()["id"]
        assert alice.patch(f"chats/{chat}", json={"policy": "interval"}).status_code == 200
    assert count_rebuilds() == 0


@pytest.mark.parametrize("spent", first_of(["hour", "day"]))
def test_delete_and_edit_succeed_and_their_rebuild_waits(
    alice: Client, upstream: FakeUpstream, settings: Any, spent: str
) -> None:
    chat = folded_chat()
    if spent == "hour":
        use_up(alice, chat)
    else:
        settings.LIMIT_TOKENS_PER_DAY = 6000
        today = timezone.now().date()
        Allowance.objects.update_or_create(user=chat.owner, defaults={"day": today, "day_tokens": 6000})
    calls = summarizer_calls(upstream)
    first, second = Message.objects.filter(chat=chat, role="user").order_by("seq")[:2]
    assert alice.patch(f"chats/{chat.pk}/messages/{first.pk}", json={"content": "redacted"}).status_code == 200
    assert alice.delete(f"chats/{chat.pk}/messages/{second.pk}").status_code == 204
    brief = brief_of(chat)
    assert "T1" not in brief.global_summary
    assert brief.due
    assert brief.delayed_until is not None
    sweep()
    work()
    assert summarizer_calls(upstream) == calls
    told = timezone.now() - timedelta(seconds=1)
    ConversationBrief.objects.update(delayed_until=told)
    sweep()
    work()
    assert not brief_of(chat).due
    assert summarizer_calls(upstream) > calls


def test_edit_of_unfolded_message_costs_nothing(alice: Client) -> None:
    chat = chat_of(2)
    question = Message.objects.get(chat=chat, seq=1)
    for text in ("one", "two", "three", "four", "five"):
        alice.patch(f"chats/{chat.pk}/messages/{question.pk}", json={"content": text})
    assert (count_rebuilds(), brief_of(chat).delayed_until) == (0, None)


def test_ordinary_folding_goes_on(alice: Client) -> None:
    """Folds that are due by turns are limited neither by the hour's count nor by a spent day."""
    chat = folded_chat()
    use_up(alice, chat)
    other = chat_of(20)
    assert queued() == [str(other.pk)]
    work()
    assert not brief_of(other).due


@pytest.mark.exhaustive
def test_an_order_does_not_hurry_a_summarizer_that_fails(alice: Client, upstream: FakeUpstream) -> None:
    chat = folded_chat()
    upstream.behave("status?code=500", lane="complete")
    accepted(resummarize(alice, chat))
    work()
    brief = brief_of(chat)
    assert brief.attempts == 1
    calls = summarizer_calls(upstream)
    for _ in range(5):
        accepted(resummarize(alice, chat))
        work()
    after = brief_of(chat)
    assert (after.attempts, after.next_attempt_at) == (1, brief.next_attempt_at)
    assert summarizer_calls(upstream) == calls


@pytest.mark.exhaustive
def test_rebuilds_of_a_user_are_queued_one_by_one(alice: Client, bob: Client) -> None:
    hers, his = [folded_chat() for _ in range(3)], folded_chat(name="bob")
    names = [accepted(resummarize(alice, chat)) for chat in hers]
    assert len(set(names)) == 3
    accepted(resummarize(bob, his))
    assert queued() == [str(hers[0].pk), str(his.pk)]
    assert sweep()["chats_enqueued"] == 0, "the sweep knows that, too"
    OrmQ.objects.all().delete()
    assert sweep()["chats_enqueued"] == 2
    assert set(queued()) == {str(hers[0].pk), str(his.pk)}
    done = []
    while waiting := queued():
        done.append(waiting[0])
        work_once()
    assert not ConversationBrief.objects.exclude(requested="").exists()
    assert [chat for chat in dict.fromkeys(done) if chat != str(his.pk)] == [str(chat.pk) for chat in hers]


def test_rebuild_yields_to_other_chats_after_each_batch(alice: Client, upstream: FakeUpstream) -> None:
    chat = folded_chat(20)
    accepted(resummarize(alice, chat))
    due = chat_of(20, name="bob")
    calls = summarizer_calls(upstream)
    work_once()
    assert summarizer_calls(upstream) == calls + 1
    assert queued() == [str(due.pk), str(chat.pk)]
    work_once()
    assert not brief_of(due).due, "what is due by turns is folded to its end"
    work_once()
    assert queued() == [], "with nobody else waiting, so is the rest"
    assert brief_of(chat).requested == ""


@pytest.mark.exhaustive
def test_at_once_as_many_as_the_limit_allows_get_through(alice: Client) -> None:
    chats = [folded_chat() for _ in range(12)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda chat: resummarize(alice, chat).status_code, chats))
    assert sorted(answers) == [202] * 3 + [429] * 9
    assert count_rebuilds() == 3
    assert ConversationBrief.objects.exclude(requested="").count() == 3
