"""One's own account over HTTP: exported as one file that can be imported again, and erased completely."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.test import Client as Browser
from django.utils import timezone
from knox.models import AuthToken

from conversations import account_deletion, chat_lifecycle
from conversations.accounts.models import Allowance
from conversations.interchange.rows import CHAT_FIELDS, message_fields
from conversations.models import Chat, ContentView, Message
from conversations.retention.models import Erasure
from memory.api import account_export
from memory.worker.sweep import sweep
from tests.api.talking import Turn, error, messages
from tests.support.database import traces
from tests.support.factories import add_turns, make_chat, make_user
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import run_fold
from tests.support.live_server import Client

pytestmark = pytest.mark.postgres

ODD = 'She said "=1+1", \x1b[31mred\u202e, 😀, \u2028 and ]}'


@pytest.fixture(autouse=True)
def unlimited(settings: Any) -> None:
    settings.RATE_LIMITS = False


def lived(client: Client, upstream: FakeUpstream) -> str:
    """Make a chat with everything it can have: odd text, metadata, sources, a second answer, memory and a key."""
    body = {"message": ODD, "stream": False, "metadata": {"lesson": [7, ODD]}, "instructions": "Be brief."}
    body |= {"sources": [{"title": "Manual", "text": "Turn it off and on."}]}
    turn = Turn.of(client.post("message/first", json=body, headers={"Idempotency-Key": "k1"}).json())
    client.post(f"{turn.path}/regenerate", json={"stream": False})
    client.patch(f"chats/{turn.chat}", json={"title": ODD[:30], "metadata": {"a": 1}})
    for number in range(5):
        edited = client.ask(f"question {number}", turn.chat)["user_message_id"]
    client.patch(f"chats/{turn.chat}/messages/{edited}", json={"content": "another question"})
    upstream.script("stream", "status?code=500")
    client.post("message", json={"message": "to fail", "chat_id": turn.chat, "stream": False})
    gone = Turn.of(client.ask("to be forgotten", turn.chat))
    client.delete(f"chats/{turn.chat}/messages/{gone.question}")
    client.post(f"chats/{turn.chat}/resummarize", json={"mode": "update"})
    run_fold(Chat.objects.get(pk=turn.chat))
    return turn.chat


def exported(client: Client) -> dict[str, Any]:
    answer = client.get("me/export")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store, no-transform"
    assert "attachment" in answer.headers["content-disposition"]
    found: dict[str, Any] = answer.json()
    return found


def test_everything_is_in_it(alice: Client, bob: Client, upstream: FakeUpstream) -> None:
    chat = lived(alice, upstream)
    bob.ask("the secret of Bob")
    user = User.objects.get(username="alice")
    ContentView.objects.create(viewer_name="olga", owner_id=user.pk, chat_id=chat, page="p", object_id="o")
    found = exported(alice)
    assert found["format"] == account_export.FORMAT
    assert (found["account"]["username"], found["account"]["id"]) == ("alice", user.pk)
    assert [one["key"] for one in found["idempotency_keys"]] == ["k1"]
    assert [one["chat_id"] for one in found["looked_at_by_staff"]] == [chat]
    assert found["usage"] == alice.get("usage").json()["results"]
    (told,) = found["chats"]
    assert told["id"] == chat
    said = messages(alice, chat)
    for name in ("content", "metadata", "usage"):
        assert [one[name] for one in told["messages"]] == [one[name] for one in said], name
    brief = alice.get(f"chats/{chat}/brief").json()
    assert told["memory"]["brief"]["global_summary"] == brief["brief"]["global_summary"] != ""
    assert [one["version"] for one in told["memory"]["revisions"]] == list(range(1, brief["version"] + 1))
    assert {one["text"] for one in told["memory"]["given"]} >= {"Be brief."}
    assert len(told["memory"]["contexts"]) == sum(one["role"] == "assistant" for one in said)
    text = json.dumps(found, ensure_ascii=False)
    assert "secret of Bob" not in text
    assert "olga" not in text, "who of the staff it was is theirs"
    assert ODD in told["messages"][0]["content"]
    assert not set("\x1b\u202e\u2028") & set(alice.get("me/export").text), "safe to look at in a terminal"
    token = AuthToken.objects.get(user=user)
    assert token.digest not in text
    assert token.token_key not in text
    assert len(found["tokens"]) == 1


def test_export_imports_to_the_same(alice: Client, bob: Client, upstream: FakeUpstream, tmp_path: Path) -> None:
    chats = [lived(alice, upstream), alice.post("chats", json={"title": "Empty"}).json()["id"]]
    chats.append(alice.ask("a chat that gets its title from this")["chat_id"])
    Chat.objects.filter(pk=chats[1]).update(temporary=True)
    Chat.objects.filter(pk=chats[2]).update(pinned=True, retain_days=7)
    file = tmp_path / "export.json"
    file.write_bytes(alice.get("me/export").content)
    out = StringIO()
    call_command("import_chat", str(file), user="bob", stdout=out)
    again = out.getvalue().split()
    assert len(again) == 3
    for before, after in zip(chats, again, strict=True):
        one, two = Chat.objects.get(pk=before), Chat.objects.get(pk=after)
        assert list(message_fields(one)) == list(message_fields(two))
        for name in (*CHAT_FIELDS, "policy", "created_at"):
            assert getattr(one, name) == getattr(two, name)


def test_export_is_rate_limited(alice: Client, settings: Any) -> None:
    settings.RATE_LIMITS = True
    exported(alice)
    refused = alice.get("me/export")
    error(refused, 429, "rate_limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 60


@pytest.mark.slow
def test_a_slow_reader_holds_nothing_and_gets_each_chat_whole(alice: Client, upstream: FakeUpstream) -> None:
    """A concurrent change is exported before or after, never mixed; a chat deleted during the export is left out."""
    owner = User.objects.get(username="alice")
    chats = [make_chat(owner) for _ in range(4)]
    long = [(f"question {number} " + "x" * 1000, "answer " + "y" * 1000) for number in range(1000)]
    for chat in chats:
        add_turns(chat, long)
    with alice.http.stream("GET", "/v1/me/export") as answer:
        parts = answer.iter_bytes()
        first = next(parts)
        chat_lifecycle.delete_chat(chats[1])
        alice.delete(f"chats/{chats[3].pk}/messages/{Message.objects.get(chat=chats[3], seq=1).pk}")
        assert alice.ask("hello", str(chats[2].pk))["message"]["seq"] == 2002
        found = json.loads(first + b"".join(parts))
    lengths = {one["id"]: len(one["messages"]) for one in found["chats"]}
    allowed: list[set[int | None]] = [{2000}, {2000, None}, {2000, 2001, 2002}, {2000}]
    for chat, may_be in zip(chats, allowed, strict=True):
        assert lengths.get(str(chat.pk)) in may_be


# Erasing


def erased(name: str, chats: list[str]) -> bool:
    user = User.objects.filter(username=name)
    return not user.exists() and not Erasure.objects.exists() and not any(traces(chat) for chat in chats)


def test_all_of_it_is_gone(alice: Client, bob: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.RATE_LIMITS = True
    user = User.objects.get(username="alice")
    chats = [lived(alice, upstream), alice.ask("another")["chat_id"]]
    kept = bob.ask("mine")["chat_id"]
    browser = Browser()
    browser.force_login(user)
    assert Allowance.objects.filter(user=user).exists()
    # Staff's looks at what was said stay, as ids.
    ContentView.objects.create(viewer_name="olga", owner_id=user.pk, page="p", object_id="o")
    assert alice.erase(confirm="alice").status_code == 204
    assert ContentView.objects.get().owner_id == user.pk
    assert erased("alice", chats)
    assert not AuthToken.objects.filter(user=user.pk).exists()
    for rows in (Chat.objects.filter(owner=user.pk), Allowance.objects.filter(user=user.pk)):
        assert not rows.exists()
    error(alice.get("chats"), 401, "not_authenticated")
    assert "_auth_user_id" not in browser.session
    assert bob.get(f"chats/{kept}").status_code == 200


PASSWORD = "correct horse battery"


def with_password(name: str, **fields: Any) -> User:
    """Give the user a password. Written by `update`, so that no token is revoked."""
    User.objects.filter(username=name).update(password=make_password(PASSWORD), **fields)
    return User.objects.get(username=name)


def test_delete_account_with_password_requires_it(alice: Client, upstream: FakeUpstream) -> None:
    user = with_password("alice")
    chat = alice.ask("hello")["chat_id"]
    told = error(alice.delete("me"), 400, "invalid_request")
    assert set(told["details"]) == {"password"}
    error(alice.erase(confirm="alice"), 400, "invalid_request")
    told = error(alice.erase(password="wrong"), 403, "permission_denied")
    assert told["message"] == "Wrong password."
    error(alice.erase(password=PASSWORD, sure="yes"), 400, "invalid_request")
    assert User.objects.get(pk=user.pk).is_active
    assert alice.get(f"chats/{chat}").status_code == 200
    assert alice.erase(password=PASSWORD).status_code == 204
    assert erased("alice", [chat])


def test_delete_account_without_password_requires_new_token(alice: Client, user_client: Any) -> None:
    told = error(alice.erase(password="any"), 400, "invalid_request")
    assert set(told["details"]) == {"confirm"}
    error(alice.erase(confirm="bob"), 400, "invalid_request")
    AuthToken.objects.update(created=timezone.now() - timedelta(minutes=11))
    error(alice.erase(confirm="alice"), 403, "permission_denied")
    assert User.objects.get(username="alice").is_active
    assert user_client("alice").erase(confirm="alice").status_code == 204
    assert erased("alice", [])


def test_no_superuser_is_erased_by_a_call(alice: Client) -> None:
    with_password("alice", is_superuser=True)
    told = error(alice.erase(password=PASSWORD), 403, "permission_denied")
    assert "forget_user" in told["message"]
    assert User.objects.get(username="alice").is_active


def test_a_session_needs_the_password_too(alice: Client) -> None:
    user = with_password("alice")
    browser = Browser()
    browser.force_login(user)
    for body, status in (({}, 400), ({"password": "wrong"}, 403), ({"password": PASSWORD}, 204)):
        answer = browser.delete("/v1/me", data=body, content_type="application/json")
        assert answer.status_code == status, answer.content
    assert erased("alice", [])


def test_many_chats_go_on_in_the_background(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User.objects.get(username="alice")
    for _ in range(5):
        make_chat(user)
    monkeypatch.setattr(account_deletion, "AT_ONCE_SECONDS", -1.0)
    assert alice.erase(confirm="alice").status_code == 204
    error(alice.get("chats"), 401, "not_authenticated")
    assert Chat.objects.filter(owner=user).count() == 5
    assert sweep()["users_erased"] == 1
    assert erased("alice", [])
    assert sweep()["users_erased"] == 0


def test_failed_account_erasure_blocks_no_other(
    user_client: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [make_user(name) for name in ("ada", "ben", "eve")]
    stuck = make_chat(users[1])
    for user in users:
        account_deletion.request_erasure(user.pk)
    real = chat_lifecycle.delete_chat

    def delete_chat(chat: Chat) -> None:
        if chat.pk == stuck.pk:
            raise DatabaseError
        real(chat)

    monkeypatch.setattr(chat_lifecycle, "delete_chat", delete_chat)
    assert account_deletion.erase_waiting(10) == 2
    monkeypatch.undo()
    assert account_deletion.erase_waiting(10) == 1
    assert not User.objects.exists()


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


@pytest.mark.exhaustive
def test_others_write_while_a_user_of_many_chats_is_erased(alice: Client, bob: Client, upstream: FakeUpstream) -> None:
    user = User.objects.get(username="alice")
    for _ in range(30):
        add_turns(make_chat(user), [("question", "answer")] * 20)

    def erase() -> None:
        try:
            account_deletion.request_erasure(user.pk)
            account_deletion.erase(user.pk)
        finally:
            connection.close()

    sent = 0
    with ThreadPoolExecutor(1) as pool:
        erasure = pool.submit(erase)
        while not erasure.done():
            assert bob.ask(f"hello {sent}")["message"]["status"] == "complete"
            sent += 1
    assert sent > 0
    assert Chat.objects.count() == sent
