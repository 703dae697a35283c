"""What a deletion takes with it, counted over HTTP before it, and the receipt that it answers with."""

from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.db.models import Model
from openai import OpenAI

from conversations import account_deletion
from conversations.models import AttachmentLink, Chat, Message
from conversations.retention.models import Erased
from memory.models import ContextRecord, Pin, SummaryRevision
from tests.api.talking import begin_reply, error, final, hold_replies
from tests.support.factories import add_turns
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import turn, update
from tests.support.images import data_url, png
from tests.support.live_server import Client

pytestmark = pytest.mark.postgres

RECEIPT = {"Prefer": "respond-async, return=representation"}
TABLES: dict[str, type[Model]] = {
    "messages": Message,
    "attachments": AttachmentLink,
    "pins": Pin,
    "versions": SummaryRevision,
    "prompts": ContextRecord,
}


def rows() -> dict[str, int]:
    """How many rows there are of what a receipt counts."""
    return {name: model._base_manager.count() for name, model in TABLES.items()}


def lived(client: Client) -> Chat:
    """Make a chat with a summary, pins, prompts, an image of its own, and one that another chat has, too."""
    with OpenAI(
        base_url=f"{client.base}/v1", api_key=client.token, default_headers=dict(client.http.headers)
    ) as openai:
        for shades in ((1, 2), (2,)):
            said: list[Any] = [{"type": "text", "text": f"I prefer harbours with {len(shades)} lamps."}]
            said += [{"type": "image_url", "image_url": {"url": data_url(png(8, 8, one))}} for one in shades]
            openai.chat.completions.create(model="arco", messages=[{"role": "user", "content": said}])
    chat = Chat.objects.filter(owner__username=client.get("me").json()["username"]).order_by("pk")[0]
    add_turns(chat, [turn(number, 40) for number in range(1, 20)])
    update(chat)
    client.post(f"chats/{chat.pk}/pins", json={"text": "Answer in metric units."})
    client.ask("And now?", str(chat.pk))
    return chat


def deletion(client: Client, path: str) -> dict[str, int]:
    """What the deletion of that path would take with it."""
    answer = client.get(f"{path}/deletion")
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    kind = "message" if "/messages/" in path else path.split("/")[0].removesuffix("s").replace("me", "user")
    assert (told.pop("at"), told.pop("status"), told.pop("kind")) == (None, None, kind)
    assert told.pop("id")
    return told


def receipt(answer: httpx.Response, status: str = "complete") -> dict[str, int]:
    """The counts of a receipt, which has the id and the time of the log of erasures."""
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    logged = Erased.objects.get(kind=told.pop("kind"), object_id=told.pop("id"))
    assert (told.pop("at"), told.pop("status")) == (logged.at.isoformat().replace("+00:00", "Z"), status)
    return told


def test_receipt_of_a_chat_counts_what_went_with_it(alice: Client, bob: Client, upstream: FakeUpstream) -> None:
    bob.ask("Hello")
    chat = lived(alice)
    path, before = f"chats/{chat.pk}", rows()
    counted = deletion(alice, path)
    assert rows() == before
    error(bob.get(f"{path}/deletion"), 404, "not_found")
    error(bob.delete(path, headers=RECEIPT), 404, "not_found")
    assert receipt(alice.delete(path, headers=RECEIPT)) == counted
    assert counted == {name: count - rows()[name] for name, count in before.items()}
    assert (counted["messages"], counted["attachments"]) == (42, 2)
    assert min(counted.values()) > 0
    error(alice.delete(path, headers=RECEIPT), 404, "not_found")


def test_deletion_without_the_preference_is_answered_without_content(alice: Client) -> None:
    for prefer in ("", "return=minimal", "return=representations", "x-return=representation"):
        chat = alice.post("chats", json={}).json()["id"]
        answer = alice.delete(f"chats/{chat}", headers={"Prefer": prefer} if prefer else {})
        assert (answer.status_code, answer.content) == (204, b"")


def test_receipt_of_a_message_counts_what_was_made_of_it(alice: Client, upstream: FakeUpstream) -> None:
    chat = lived(alice)
    path = f"chats/{chat.pk}/messages/{Message.objects.get(chat=chat, seq=1).pk}"
    counted, pins = deletion(alice, path), Pin.objects.filter(message__seq=1, chat=chat).count()
    expected = {"messages": 1, "attachments": 2, "pins": pins, "prompts": 0}
    assert counted == {**expected, "versions": SummaryRevision.objects.filter(chat=chat).count()}
    assert pins > 0
    left = AttachmentLink.objects.count() - 2
    assert receipt(alice.delete(path, headers=RECEIPT)) == counted
    assert AttachmentLink.objects.count() == left
    assert SummaryRevision.objects.filter(chat=chat, forgotten_at=None).get().kind == "retract"
    nothing = dict.fromkeys(TABLES, 0)
    assert receipt(alice.delete(path, headers=RECEIPT)) == nothing, "it was deleted before; the time stays"
    assert deletion(alice, path) == nothing


def test_reply_being_written_is_neither_counted_nor_deleted(alice: Client, upstream: FakeUpstream) -> None:
    hold_replies(upstream)
    turn = begin_reply(alice)
    error(alice.get(f"{turn.path}/deletion"), 409, "chat_busy")
    error(alice.delete(turn.path, headers=RECEIPT), 409, "chat_busy")
    error(alice.delete(f"chats/{turn.chat}/messages/{turn.question}", headers=RECEIPT), 409, "chat_busy")
    upstream.release()
    assert final(alice, turn)["status"] == "complete"
    assert not Erased.objects.exists()


@pytest.mark.parametrize("seconds", [60.0, 0.0])
def test_receipt_of_an_account_says_whether_all_is_gone(
    alice: Client, bob: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(account_deletion, "AT_ONCE_SECONDS", seconds)
    bob.ask("Hello")
    lived(alice)
    counted, before, joined = deletion(alice, "me"), rows(), User.objects.get(username="alice").date_joined
    body = {"confirm": "alice"}
    answer = alice.http.request("DELETE", "/v1/me", json=body, headers=RECEIPT)
    assert joined.date().isoformat() in answer.json()["id"]
    assert receipt(answer, "complete" if seconds else "running") == counted
    for user_id in User.objects.filter(username="alice").values_list("pk", flat=True):
        assert account_deletion.erase(user_id)
    assert counted == {name: count - rows()[name] for name, count in before.items()}
    assert rows()["messages"] == 2


def test_receipt_of_an_end_user_is_for_the_app_and_that_of_the_app_counts_end_users(
    shop: Client, upstream: FakeUpstream
) -> None:
    for name in ("anna/b", "ben"):
        shop.post("message/first", json={"message": "Hello", "stream": False}, headers={"X-Chatmemory-User": name})
    assert (deletion(shop, "me")["messages"], deletion(shop, "users/anna/b")["messages"]) == (4, 2)
    error(shop.get("users/nobody/deletion"), 404, "not_found")
    error(shop.get("users/ben/deletion", headers={"X-Chatmemory-User": "ben"}), 403, "permission_denied")
    assert deletion(shop, "me") == {**dict.fromkeys(TABLES, 0), "messages": 4, "prompts": 2}
    gone = receipt(shop.delete("users/anna/b", headers=RECEIPT))
    assert gone == {**dict.fromkeys(TABLES, 0), "messages": 2, "prompts": 1}
    assert deletion(shop, "me")["messages"] == 2
