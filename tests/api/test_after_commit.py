"""A failure after a commit undoes nothing, and no client is told that the work was not done."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client as Browser

from chatmemory.runtime import fault_points
from conversations import account_deletion
from conversations.models import Message
from conversations.retention.models import Erasure
from tests.api.talking import say
from tests.support.live_server import Client


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
def test_deleting_a_user_whose_erasing_fails_is_answered_and_stays_requested(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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
    assert "erasing a user failed" in caplog.text
