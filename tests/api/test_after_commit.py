"""A failure after a commit undoes nothing, and no client is told that the work was not done."""

import ast
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, transaction
from django.test import Client as Browser

from chatmemory.database import executors
from chatmemory.runtime import fault_points
from conversations import account_deletion
from conversations.models import Erasure, Message
from tests.api.talking import say
from tests.support.live_server import Client

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("error", [OperationalError, RuntimeError])
def test_a_reply_that_is_stored_is_handed_out(
    alice: Client, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """The connection is lost, or another error occurs, just after the final message is committed."""
    struck: list[str] = []

    def point(name: str) -> None:
        if name == "finish.committed" and not struck:
            struck.append(name)
            raise error

    monkeypatch.setattr(fault_points, "point", point)
    events = say(alice, "Hello")
    assert struck
    assert events[-1].name == "message.completed", events[-1]
    assert Message.objects.get(role="assistant").content == events[-1].data["message"]["content"]


@pytest.mark.django_db(transaction=True)
def test_what_fails_after_a_commit_keeps_nothing_else_from_running(caplog: pytest.LogCaptureFixture) -> None:
    ran: list[str] = []

    def fails(said: str) -> None:
        raise RuntimeError(said)

    with transaction.atomic():
        executors.after_commit(partial(fails, "secret words"))
        executors.after_commit(partial(ran.append, "second"))
        User.objects.create(username="kept")
    assert ran == ["second"]
    assert User.objects.filter(username="kept").exists()
    assert "work after a commit failed" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_deleting_a_user_whose_erasing_fails_is_answered_and_stays_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    boss = User.objects.create_superuser("boss")
    owner = User.objects.create(username="alice")
    browser = Browser()
    browser.force_login(boss)

    def fails(*args: Any, **options: Any) -> bool:
        raise RuntimeError

    monkeypatch.setattr(account_deletion, "erase", fails)
    answer = browser.post(f"/admin/auth/user/{owner.pk}/delete/", {"post": "yes"})
    assert answer.status_code == 302
    assert Erasure.objects.filter(user=owner).exists()


def test_nobody_leaves_work_for_after_a_commit_to_django_itself() -> None:
    """Django's `on_commit` raises errors of callbacks and, even with `robust=True`, those of a `partial`."""
    callers = {
        path.relative_to(ROOT).as_posix()
        for app in ("chatmemory", "conversations", "memory")
        for path in (ROOT / app).rglob("*.py")
        if "on_commit" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr == "on_commit"
    }
    assert callers == {"chatmemory/database/executors.py"}
