"""Chats that expire over HTTP: temporary ones, and chats past their owner's retention."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from conversations.models import Chat
from conversations.retention.models import Erased
from memory.worker.sweep import sweep
from tests.api.talking import Turn, error, sdk
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

pytestmark = pytest.mark.postgres


def age(days: float) -> None:
    Chat.objects.update(last_message_at=timezone.now() - timedelta(days=days))


def test_a_temporary_chat_is_found_by_its_id_alone_and_goes(alice: Client, upstream: FakeUpstream) -> None:
    turn = Turn.of(alice.ask("The zeppelin lands at noon.", temporary=True))
    kept = Turn.of(alice.ask("Another zeppelin"))
    empty = alice.post("chats", json={"temporary": True, "pinned": True}).json()
    assert empty["temporary"] is True
    assert [one["id"] for one in alice.get("chats").json()["results"]] == [kept.chat]
    found = alice.post("search", json={"q": "zeppelin"}).json()["results"]
    assert {one["chat_id"] for one in found} == {kept.chat}

    age(0.9)
    assert sweep()["chats_erased"] == 0
    alice.ask("And leaves?", turn.chat)
    told = alice.get(f"chats/{turn.chat}").json()
    assert (told["title"], told["title_is_automatic"], told["temporary"]) == ("", False, True)
    assert "lands at noon" in upstream.requests[-1].text
    with sdk(alice) as client:  # by its id it can be continued here, too
        client.chat.completions.create(
            model="arco",
            messages=[{"role": "user", "content": "So?"}],
            extra_headers={"X-Conversation-Id": turn.chat},
        )
    assert alice.get(f"chats/{turn.chat}").json()["message_count"] == 6
    first = alice.get(f"chats/{turn.chat}/messages").json()["results"][0]["id"]
    assert alice.delete(f"chats/{turn.chat}/messages/{first}").status_code == 204
    assert alice.get(f"chats/{turn.chat}").json()["title"] == ""

    age(1.1)
    assert sweep()["chats_erased"] == 2, "a pin holds no temporary chat"
    assert alice.get(f"chats/{turn.chat}").status_code == 404
    assert alice.post("message", json={"message": "?", "chat_id": turn.chat}).status_code == 404
    assert list(Chat.objects.values_list("pk", flat=True).filter(pk=kept.chat)) != []
    assert Erased.objects.filter(kind="chat").count() == 2


def test_pins_and_own_days_are_the_clients_to_set(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.RETENTION_DAYS = 30
    chat = Turn.of(alice.ask("Hello")).chat
    set_, gone = {"pinned": True, "retain_days": 7}, 31
    assert set_.items() <= alice.patch(f"chats/{chat}", json=set_).json().items()
    age(gone)
    assert sweep()["chats_erased"] == 0
    assert alice.patch(f"chats/{chat}", json={"title": "Kept", "retain_days": 36_500}).status_code == 200
    assert alice.patch(f"chats/{chat}", json={"pinned": False}).json()["retain_days"] == 36_500
    assert sweep()["chats_erased"] == 0, "a change is no message, but its own days come first"
    assert alice.patch(f"chats/{chat}", json={"retain_days": None}).json()["retain_days"] is None
    alice.ask("Still there?", chat)
    assert sweep()["chats_erased"] == 0
    age(gone)
    assert sweep()["chats_erased"] == 1
    assert alice.get(f"chats/{chat}").status_code == 404


def test_retention_rejects_invalid_values(alice: Client) -> None:
    chat = alice.post("chats", json={}).json()["id"]
    for name, value in (
        *(("retain_days", wrong) for wrong in (0, 36_501, 1.5, "7")),
        *(("pinned", wrong) for wrong in (None, 1)),
        ("temporary", True),
    ):
        refused = alice.patch(f"chats/{chat}", json={name: value})
        assert error(refused, 400, "invalid_request")["details"].keys() == {name}, value
