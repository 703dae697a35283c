"""What the memory in use says about the work on it: queued, in progress, waiting, no worker, settled."""

import time
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from memory.folding.fold import fold
from memory.models import ConversationBrief, Worker
from tests.support.factories import add_turns, make_chat, make_user
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client


@pytest.fixture
def chat(alice: Client, upstream: FakeUpstream) -> str:
    chat = make_chat(make_user("alice"))
    add_turns(chat, [(f"Note {number}: {lorem(40)}", "Noted.") for number in range(8)])
    return str(chat.pk)


def work(client: Client, chat: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"chats/{chat}/brief").json()["work"]
    assert set(found) == {"state", "since", "attempt", "error", "sentence"}
    assert found.pop("sentence").endswith(".")
    return found


def test_the_work_is_told_until_it_is_settled(alice: Client, chat: str) -> None:
    idle = {"state": "idle", "since": None, "attempt": 0, "error": None}
    assert work(alice, chat) == idle
    assert alice.post(f"chats/{chat}/resummarize", json={"mode": "update"}).status_code == 202
    assert work(alice, chat)["state"] == "no_worker"
    Worker.objects.create(pk="w")
    queued = work(alice, chat)
    assert queued["state"] == "queued"
    assert queued["since"] is not None
    assert fold(UUID(chat), until=time.monotonic() + 60).outcome == "done"
    assert work(alice, chat) == idle


def test_a_worker_at_it_and_a_failure_are_told(alice: Client, chat: str) -> None:
    brief = ConversationBrief.objects.filter(chat_id=UUID(chat))
    soon = timezone.now() + timedelta(seconds=50)
    brief.update(requested="rebuild", lease_owner="w:1", lease_expires_at=soon)
    at_it = work(alice, chat)
    assert (at_it["state"], at_it["error"]) == ("rebuilding", None)
    assert at_it["since"] is not None
    failed = {"code": "upstream_timeout", "message": "Too slow."}
    brief.update(lease_owner="", lease_expires_at=None, next_attempt_at=soon, attempts=2, last_error=failed)
    assert work(alice, chat) == {
        "state": "waiting",
        "since": None,
        "attempt": 2,
        "error": "upstream_timeout",
    }
