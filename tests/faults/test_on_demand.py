"""Memory requests beyond a user's limits cost the operator nothing, and delay no other user."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from conversations.models import Allowance, Chat, Message
from memory.models import ConversationBrief
from tests.faults.bench import queued
from tests.processes.talking import LOW, question, settled
from tests.support.factories import add_turns, make_chat, make_user
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.processes import Product, wait_for
from tests.support.product import LIMITS

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ON = {
    "RATE_LIMITS": "on",
    "LIMIT_TOKENS_PER_DAY": "6000",
    "LIMIT_RESUMMARIZE_PER_HOUR": "20",
    "MEMORY_MIN_RETAINED": "0",
    "SWEEP_SECONDS": "60",
}
ROUNDS = 25
"""Rounds of all kinds of requests, with the daily limit used up."""
MEASURED = 7
FLOOD_SECONDS_BETWEEN = 0.02
CALL_SECONDS = 0.5
"""Duration of a summarizer call."""
SLACK_SECONDS = 0.6
"""A worker polls for tasks twice a second, and the machine may be busy."""


@pytest.fixture
def running(product: Product, fake: FakeUpstream, settings: Any) -> Product:
    """A server and workers with limits."""
    product.env |= LOW | ON
    same = {field: int(LOW[name]) for name, field in LIMITS.items() if name in LOW}
    settings.MEMORY_LIMITS = replace(settings.MEMORY_LIMITS, **same)
    fake.behave("normal?tokens=60", lane="complete")
    product.worker()
    product.server()
    wait_for(lambda: product.logged("swept"), "a worker at work", timeout=60)
    return product


def chat_of(user: str, turns: int = 30) -> Chat:
    chat = make_chat(make_user(user))
    add_turns(chat, [(question(number), "Noted.") for number in range(turns)])
    return chat


@pytest.mark.promise("P31")
def test_who_has_spent_the_day_costs_nothing_more(running: Product, fake: FakeUpstream) -> None:
    client = running.client("mallory")
    chat = chat_of("mallory")
    wait_for(lambda: settled(chat.pk), "a fold", timeout=60)
    today = timezone.now().date()
    Allowance.objects.update_or_create(user=chat.owner, defaults={"day": today, "day_tokens": 6000})
    sent = client.post("message", json={"chat_id": str(chat.pk), "message": "Hello", "stream": False})
    assert sent.json()["error"]["code"] == "quota_exceeded"
    fake.clear()
    said = Message.objects.filter(chat=chat).order_by("seq")
    questions, replies = list(said.filter(role="user")), list(said.filter(role="assistant"))
    for number in range(ROUNDS):
        assert set(_orders(client, chat.pk, number)) == {429}
    for number in range(ROUNDS):
        content = {"content": question(100 + number)}
        edited = client.patch(f"chats/{chat.pk}/messages/{questions[number].pk}", json=content)
        deleted = client.delete(f"chats/{chat.pk}/messages/{replies[number].pk}")
        assert (edited.status_code, deleted.status_code) == (200, 204), "taking a text back is never refused"
        # 200: with nothing folded, a wider window needs no work. 409: revision 1 had seen what was deleted.
        assert _orders(client, chat.pk, number) == [429, 429, 200, 409]
    running.manage("sweep")
    wait_for(lambda: not queued.size(), "an empty queue", timeout=60)
    assert fake.calls("complete") == []
    assert ConversationBrief.objects.get(pk=chat.pk).due, "it waits for the next day, and is not forgotten"


def _orders(client: Client, chat_id: UUID, number: int) -> list[int]:
    """Make every request that makes memory anew. Return the statuses."""
    chat = f"chats/{chat_id}"
    mode = "rebuild" if number % 2 else "update"
    return [
        client.post(f"{chat}/resummarize", json={"mode": mode}).status_code,
        client.patch(chat, json={"policy": "interval"}).status_code,
        client.patch(chat, json={"options": {"k_raw_turns": 10 + number % 2}}).status_code,
        client.post(f"{chat}/revisions/1/restore").status_code,
    ]


@pytest.mark.promise("P31")
def test_nobody_elses_fold_takes_twice_its_time(running: Product, fake: FakeUpstream) -> None:
    fake.behave(f"normal?tokens=60&delay={CALL_SECONDS}", lane="complete")
    alone = statistics.median(_fold_seconds() for _ in range(MEASURED))
    client = running.client("mallory")
    chats = [chat_of("mallory").pk for _ in range(20)]
    wait_for(lambda: all(settled(chat) for chat in chats), "her own folds", timeout=180)
    with _flood(client, chats) as count:
        wait_for(lambda: count() > 60, "a flood")
        beside = statistics.median(_fold_seconds() for _ in range(MEASURED))
    assert beside <= 2 * alone + SLACK_SECONDS
    mine = ConversationBrief.objects.filter(chat__owner=User.objects.get(username="mallory"))
    assert Allowance.objects.get(user__username="mallory").hour_rebuilds == 20
    assert sum(UUID(chat) in chats for chat in queued.folds()) <= 2
    mine.update(requested="", on_demand_at=None)  # the rest of her rebuilds does not matter here


def _fold_seconds() -> float:
    """Return the seconds until another user's chat that has come due is folded."""
    began = time.monotonic()
    chat = chat_of("victim", 12)
    assert ConversationBrief.objects.get(pk=chat.pk).due
    wait_for(lambda: settled(chat.pk), "a fold of somebody else", timeout=60)
    return time.monotonic() - began


@contextmanager
def _flood(client: Client, chats: list[UUID]) -> Iterator[Callable[[], int]]:
    """Flood the server with such requests, most of which are refused. Yields a function that returns their number."""
    ended, answers = threading.Event(), list[Any]()
    firsts = dict(Message.objects.filter(chat__in=chats, seq=1).values_list("chat", "pk"))

    def order() -> None:
        dice = random.Random(1)
        while not ended.wait(FLOOD_SECONDS_BETWEEN):
            chat = dice.choice(chats)
            if dice.random() < 0.7:
                answer = client.post(f"chats/{chat}/resummarize", json={"mode": "rebuild"})
            else:
                content = {"content": f"edited {dice.random()}"}
                answer = client.patch(f"chats/{chat}/messages/{firsts[chat]}", json=content)
            assert answer.status_code in (200, 202, 429), answer.text
            answers.append(answer)

    thread = threading.Thread(target=order)
    thread.start()
    try:
        yield lambda: len(answers)
    finally:
        ended.set()
        thread.join(30)
