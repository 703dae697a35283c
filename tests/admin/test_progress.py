"""What a page learns about the work on a memory: each state, by permission, and nothing that people said."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from conversations.models import Chat
from memory.folding.fold import fold
from memory.folding.request import request_resummarize
from memory.models import ConversationBrief, Worker
from tests.admin.rows import make_chat, make_saying, member_of_staff, text_of

pytestmark = pytest.mark.django_db

CANARY = "a heron in the reeds"


@pytest.fixture
def chat(owner: User) -> Chat:
    return make_chat(owner, turns=8)


def told(client: Client, chat: Chat) -> dict[str, Any]:
    answer = client.get(reverse("admin:memory_conversationbrief_progress", args=[chat.pk]))
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    found: dict[str, Any] = answer.json()
    assert found["sentence"] in text_of(client, "memory_conversationbrief_change", chat.pk), (
        "without scripts, too"
    )
    return found


def set_brief(chat: Chat, **fields: Any) -> None:
    ConversationBrief.objects.filter(chat=chat).update(**fields)


def at_work(chat: Chat, **fields: Any) -> None:
    """Let a worker hold the lease."""
    set_brief(chat, lease_owner="a:1", lease_expires_at=timezone.now() + timedelta(seconds=60), **fields)


def rebuild_kept(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a rebuild of which one bite is done."""
    from memory.folding import rebuild

    request_resummarize(chat, "rebuild")
    with monkeypatch.context() as patched:
        patched.setattr(rebuild, "_swap", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fold(chat.pk, until=time.monotonic() + 60)


def test_nothing_is_to_be_done(staff: Client, chat: Chat) -> None:
    found = told(staff, chat)
    assert (found["kind"], found["is_over"], found["head"]) == ("good", True, 0)
    assert found["sentence"] == "Up to date. No summary yet."


def test_from_the_request_to_the_end(staff: Client, chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    request_resummarize(chat, "rebuild")
    assert told(staff, chat)["sentence"] == "No worker is running: start `manage.py worker`."
    Worker.objects.create(pk="w")
    found = told(staff, chat)
    assert (found["kind"], found["is_over"], found["of"]) == ("busy", False, None)
    assert found["sentence"] == "Waiting for a worker to rebuild it."
    at_work(chat)
    assert (
        told(staff, chat)["sentence"]
        == "A worker is rebuilding the memory, starting from the first messages."
    )
    set_brief(chat, lease_owner="", lease_expires_at=None)
    rebuild_kept(chat, monkeypatch)
    found = told(staff, chat)
    assert (found["kind"], found["done"], found["of"]) == ("busy", 10, 10)
    assert "continue the rebuild: messages 1–10 of 10." in found["sentence"]
    at_work(chat)
    assert told(staff, chat)["sentence"] == "A worker is rebuilding the memory: messages 1–10 of 10."
    set_brief(chat, lease_owner="", lease_expires_at=None)
    assert fold(chat.pk, until=time.monotonic() + 60).outcome in ("done", "nothing")
    found = told(staff, chat)
    assert (found["kind"], found["is_over"], found["head"], found["of"]) == ("good", True, 1, None)
    assert found["sentence"] == "Up to date: version 1 is in use."


def test_a_fold(staff: Client, chat: Chat) -> None:
    at_work(chat, due=True)
    assert told(staff, chat)["sentence"] == "A worker is updating the memory."
    set_brief(chat, lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert "No worker is running" in told(staff, chat)["sentence"], "its worker is gone"


def test_a_failure_and_when_the_next_attempt_comes(staff: Client, chat: Chat) -> None:
    error = {"code": "refused", "message": CANARY}
    later = timezone.now() + timedelta(seconds=40)
    set_brief(chat, requested="rebuild", attempts=2, next_attempt_at=later, last_error=error)
    found = told(staff, chat)
    assert found["kind"] == "bad"
    assert "2 failed attempts. The model refused to answer. The next attempt comes in" in found["sentence"]
    assert CANARY not in str(found)
    set_brief(chat, next_attempt_at=timezone.now() + timedelta(seconds=600))
    assert "10 minutes" in told(staff, chat)["sentence"]
    set_brief(chat, next_attempt_at=timezone.now() - timedelta(seconds=1))
    assert "No worker is running" in told(staff, chat)["sentence"]


def test_what_the_built_in_summarizer_made(staff: Client, chat: Chat) -> None:
    set_brief(chat, degraded=True, head=1, version=1)
    assert "Until then, a version by the built-in summarizer is in use." in told(staff, chat)["sentence"]


def test_it_holds_nothing_of_what_was_said(owner: User) -> None:
    chat = make_saying(owner, CANARY)
    clerk = member_of_staff("clerk", "view_conversationbrief")
    answer = clerk.get(reverse("admin:memory_conversationbrief_progress", args=[chat.pk]))
    assert answer.status_code == 200
    assert CANARY not in answer.content.decode()


def test_who_may_not_see_briefs_is_told_nothing(chat: Chat, owner: User) -> None:
    url = reverse("admin:memory_conversationbrief_progress", args=[chat.pk])
    assert Client().get(url).status_code == 302
    assert member_of_staff("clerk", "view_chat", "view_content").get(url).status_code == 403
    keeper = member_of_staff("keeper", "view_conversationbrief")
    nowhere = "01a1ff81-0000-7000-8000-000000000000"
    assert keeper.get(reverse("admin:memory_conversationbrief_progress", args=[nowhere])).status_code == 404
