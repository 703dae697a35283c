"""Requests that race with the deletion of their object: each gets its answer, or an error that it is gone.

Never a 500, and nothing remains of what was deleted.
"""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Model, Q

from conversations import chat_lifecycle, models
from conversations.accounts.models import PassingCall
from conversations.models import ActiveReply, Chat, IdempotencyKey, Message
from conversations.replies import finish
from conversations.retention.models import Erasure
from memory.models import ContextRecord, ConversationBrief, SummaryRevision
from memory.worker.sweep import sweep
from tests.api.talking import Turn, begin_reply, error, hold_replies
from tests.support.database import traces
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import run_fold
from tests.support.live_server import Client

ROUNDS = 4
ANSWERS = {200, 201, 202, 204, 400, 401, 404, 409}

Act = Callable[[Client, Turn, int], Any]
ACTS: dict[str, Act] = {
    "send": lambda client, turn, n: client.post(
        f"chats/{turn.chat}/messages",
        json={"message": "And now?", "stream": False},
        headers={"Idempotency-Key": f"key {n}"},
    ),
    "stream": lambda client, turn, n: client.post(f"chats/{turn.chat}/messages", json={"message": "Tell."}),
    "first": lambda client, turn, n: client.post(
        "message/first", json={"message": "Hello", "stream": False}, headers={"Idempotency-Key": f"first {n}"}
    ),
    "ask": lambda client, turn, n: client.post(
        "ask", json={"messages": [{"role": "user", "content": "Hello"}], "stream": False}
    ),
    "again": lambda client, turn, n: client.post(f"{turn.path}/regenerate", json={"stream": False}),
    "context": lambda client, turn, n: client.post(f"chats/{turn.chat}/context", json={"message": "What was it?"}),
    "past context": lambda client, turn, n: client.get(f"{turn.path}/context"),
    "chat": lambda client, turn, n: client.patch(f"chats/{turn.chat}", json={"policy": ("interval", "chunked")[n % 2]}),
    "chats": lambda client, turn, n: client.post("chats", json={"title": "Another"}),
    "edit": lambda client, turn, n: client.patch(
        f"chats/{turn.chat}/messages/{turn.question}", json={"content": f"Edited {n}"}
    ),
    "resummarize": lambda client, turn, n: client.post(f"chats/{turn.chat}/resummarize", json={"mode": "rebuild"}),
    "restore": lambda client, turn, n: client.post(f"chats/{turn.chat}/revisions/1/restore"),
    "brief": lambda client, turn, n: client.get(f"chats/{turn.chat}/brief"),
    "pages": lambda client, turn, n: client.get(f"chats/{turn.chat}/messages"),
    "search": lambda client, turn, n: client.post("search", json={"q": "harbour"}),
}


@pytest.fixture(autouse=True)
def limited(settings: Any) -> None:
    """Set limits beyond reach, so that allowances are written."""
    settings.RATE_LIMITS = True
    settings.LIMIT_REQUESTS_PER_MINUTE = 10**6
    settings.LIMIT_TOKENS_PER_DAY = 10**9
    settings.LIMIT_STREAMS = 10**3
    settings.LIMIT_RESUMMARIZE_PER_HOUR = 10**6


def lived(client: Client) -> Turn:
    """Return the last turn of a chat that has a revision."""
    turn = Turn.of(client.ask("Where is the harbour?"))
    for number in range(4):
        turn = Turn.of(client.ask(f"question {number}", turn.chat))
    client.post(f"chats/{turn.chat}/resummarize", json={"mode": "update"})
    run_fold(Chat.objects.get(pk=turn.chat))
    return turn


def race(client: Client, turn: Turn, delete: Callable[[], Any]) -> dict[str, Counter[int]]:
    """Repeat all acts until `delete` has been answered; return how often each act got each answer."""
    over, told = threading.Event(), {name: Counter[int]() for name in ACTS}
    start = threading.Barrier(len(ACTS) + 1)

    def loop(name: str) -> None:
        own = Client(client.base, client.token)
        start.wait(20)
        number = 0
        while number < 2 or not over.is_set():
            told[name][ACTS[name](own, turn, number).status_code] += 1
            number += 1
        own.http.close()

    with ThreadPoolExecutor(len(ACTS)) as pool:
        loops = [pool.submit(loop, name) for name in ACTS]
        try:
            start.wait(20)
            assert delete().status_code == 204
        finally:
            over.set()
        for one in loops:
            one.result(60)
    return told


def strange(told: dict[str, Counter[int]]) -> dict[str, dict[int, int]]:
    return {name: dict(counts) for name, counts in told.items() if set(counts) - ANSWERS}


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_chat_that_is_deleted_while_much_is_asked_of_it(number: int, alice: Client, upstream: FakeUpstream) -> None:
    turn = lived(alice)
    told = race(alice, turn, lambda: alice.delete(f"chats/{turn.chat}"))
    assert strange(told) == {}
    assert set(told["first"]) | set(told["chats"]) <= {200, 201}, "what is about no chat goes on"
    assert told["send"][404] + told["context"][404] > 0
    assert traces(turn.chat) == []
    connection.check_constraints()


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_erase_user_during_requests_succeeds(number: int, alice: Client, upstream: FakeUpstream) -> None:
    turn = lived(alice)
    told = race(alice, turn, lambda: alice.erase(confirm="alice"))
    assert strange(told) == {}
    assert sum(counts[401] for counts in told.values()) > 0
    sweep()
    assert not User.objects.filter(username="alice").exists()
    everything: list[type[Model]] = [Chat, Message, ActiveReply, IdempotencyKey, Erasure, PassingCall]
    everything += [ConversationBrief, SummaryRevision, ContextRecord]
    assert [model for model in everything if model._default_manager.exists()] == []
    connection.check_constraints()


@pytest.mark.parametrize("path", ["chats", "message/first"])
def test_create_chat_of_erased_user_is_refused(
    path: str, alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = chat_lifecycle.create_chat

    def too_late(owner: User, **fields: Any) -> Chat:
        User.objects.filter(pk=owner.pk).delete()
        return create(owner, **fields)

    monkeypatch.setattr(chat_lifecycle, "create_chat", too_late)
    error(alice.post(path, json={"message": "Hello"} if path != "chats" else {}), 401, "not_authenticated")
    assert not Chat.objects.exists()


def test_request_for_chat_deleted_meanwhile_returns_404(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = Turn.of(alice.ask("Hello"))
    find = models.get_chat

    def and_then_gone(user: User, chat_id: UUID) -> Chat:
        chat = find(user, chat_id)
        chat_lifecycle.delete_chat(chat)
        return chat

    monkeypatch.setattr("memory.api.views.get_chat", and_then_gone)
    error(alice.post(f"chats/{turn.chat}/resummarize", json={"mode": "update"}), 404, "not_found")
    assert traces(turn.chat) == []


def test_a_cancel_whose_chat_is_deleted(alice: Client, upstream: FakeUpstream) -> None:
    hold_replies(upstream)
    turn = begin_reply(alice, "now")
    chat = Chat.objects.get()
    chat_lifecycle.delete_chat(chat)
    assert not finish.finish_in(chat.key, Q(message_id=turn.reply))
    error(alice.post(f"{turn.path}/cancel"), 404, "not_found")
    upstream.release()
    assert traces(turn.chat) == []
