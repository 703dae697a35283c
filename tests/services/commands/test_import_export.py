"""`import_chat`, `export_chat`, `create_token` and `revoke_tokens`, as an operator calls them."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone
from django_q.models import OrmQ
from knox.auth import TokenAuthentication
from knox.models import AuthToken
from rest_framework.exceptions import AuthenticationFailed

import conversations
from chatmemory.database.owned import ChatKey
from chatmemory.text.tokens import count_tokens
from conversations.interchange import rows
from conversations.models import Chat, Message
from memory.briefs import unfolded
from memory.changes import messages_changed
from memory.models import ConversationBrief
from tests.support.commands import refusal, run

pytestmark = pytest.mark.django_db

SAMPLE = Path(conversations.__file__).parent / "samples" / "trip.json"
HELLO = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "# Greeting\nHi there"}]


@pytest.fixture(autouse=True)
def alice() -> User:
    return User.objects.create_user("alice")


def imported(*args: object) -> list[Chat]:
    return [Chat.objects.get(pk=line) for line in run("import_chat", *args, "--user", "alice").splitlines()]


def exported(chat: Chat) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(run("export_chat", chat.pk))
    return value


# --- import_chat


def test_import_stores_chat_and_derived_data(write: Any, alice: User, settings: Any) -> None:
    settings.MESSAGE_MAX_CHARS = 3  # a limit of requests, not of files
    before = timezone.now()
    system = {"role": "system", "content": "Be brief."}
    [chat] = imported(write({"title": "Greeting", "messages": [system, *HELLO], "metadata": {"course": 7}}))
    found = (chat.owner, chat.title, chat.instructions, chat.metadata, chat.policy, chat.last_seq)
    assert found == (alice, "Greeting", "Be brief.", {"course": 7}, "chunked", 2)
    question, reply = chat.messages.order_by("seq")
    assert [m.token_count for m in (question, reply)] == [count_tokens(m["content"]) for m in HELLO]
    assert (reply.reply_to, reply.outline) == (question, "# Greeting")
    assert (question.line, reply.line) == ("", "User: Hello / Assistant: # Greeting Hi there")
    for message in (question, reply):  # which have no time of their own
        assert before <= message.created_at <= timezone.now()
        assert message.completed_at == message.created_at


def test_every_turn_has_its_line_on_the_last_row_that_counts(write: Any) -> None:
    raws = [
        {"role": "assistant", "content": "Welcome"},
        {"role": "user", "content": "One"},
        {"role": "user", "content": "Two"},
        {"role": "assistant", "content": "Second"},
        {"role": "assistant", "content": "Third"},
        {"role": "user", "content": ""},
    ]
    [chat] = imported(write({"messages": raws}))
    lines = list(chat.messages.order_by("seq").values_list("line", flat=True))
    assert lines[:4] == ["Assistant: Welcome", "User: One", "", ""]
    assert (lines[4].startswith("User: Two / Assistant: Second"), lines[5]) == (True, "")


def test_import_enqueues_one_fold_beyond_threshold(write: Any) -> None:
    [short] = imported(write({"messages": HELLO}))
    assert not ConversationBrief.objects.get(chat=short).due
    assert OrmQ.objects.count() == 0
    chat, other = imported(SAMPLE, write([{"title": "one", "messages": []}, {"messages": []}]))[:2]
    assert other.title == "one"
    brief = ConversationBrief.objects.get(chat=chat)
    assert brief.due
    assert (brief.version, brief.folded_through_seq) == (0, 0)
    assert unfolded(brief).turns == chat.messages.filter(role="user").count()
    assert OrmQ.objects.count() == 1


def test_a_dry_run_tells_and_stores_nothing(write: Any) -> None:
    path = write([{"title": "one", "messages": HELLO}, {"id": "b-2", "messages": []}])
    assert run("import_chat", path, "--user", "alice", "--dry-run") == "2 chats, 2 messages to import.\n"
    assert not Chat.objects.exists()


def test_an_unknown_or_inactive_user_is_refused(write: Any) -> None:
    User.objects.create_user("bob", is_active=False)
    path = write({"messages": HELLO})
    assert refusal("import_chat", path, "--user", "nobody") == "There is no user 'nobody'."
    assert refusal("import_chat", path, "--user", "bob") == "The user 'bob' is not active."
    assert not Chat.objects.exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "2.json: not JSON"),
        (b'{"messages": "\xe9"}', "2.json: not UTF-8 at byte 14"),
        ({"format": "chatmemory/1", "policy": "none", "messages": []}, "2.json: The memory policy 'none' is not known"),
        (None, "No such file"),
    ],
)
def test_a_mistake_in_the_last_file_is_named_and_imports_nothing(write: Any, content: object, sentence: str) -> None:
    good = write({"messages": HELLO}, "1.json")
    bad = good.with_name("2.json") if content is None else write(content, "2.json")
    assert sentence in refusal("import_chat", good, bad, "--user", "alice")
    assert not Chat.objects.exists()


def test_a_chat_that_the_database_refuses_leaves_no_half(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write([{"title": "good", "messages": HELLO}, {"title": "bad", "messages": HELLO}])
    real = messages_changed

    def fail_on_the_second(chat: ChatKey, *, from_seq: int) -> None:
        if Chat.objects.get(pk=chat.id).title == "bad":
            raise DatabaseError("secret words")
        real(chat, from_seq=from_seq)

    monkeypatch.setattr(rows, "messages_changed", fail_on_the_second)
    assert refusal("import_chat", path, "--user", "alice").endswith("it was not stored (DatabaseError).")
    assert [chat.title for chat in Chat.objects.all()] == ["good"]
    assert Message.objects.count() == 2


# --- export_chat


def test_an_export_imports_again_to_the_same(write: Any) -> None:
    """That no field is lost of a chat that was led here is shown in `tests/api/test_account.py`."""
    [chat] = imported(SAMPLE)
    first = exported(chat)
    [again] = imported(write(first))
    assert (again.pk != chat.pk, exported(again)) == (True, first)
    usage = {"input_tokens": 3, "cached_tokens": 0, "output_tokens": 1, "cost_usd": 1e-9}
    call = {"call_id": "c1", "name": "find", "arguments": "x", "custom": True, "extra": '{"a": 1}'}
    error = {"code": "upstream_error", "message": "It broke off."}
    first["messages"][1] |= {"usage": usage, "error": error, "edited_at": "2026-03-01T10:00:00Z"}
    seq = len(first["messages"]) + 1
    first["messages"].append({**first["messages"][0], "seq": seq, "role": "tool_call", "tool": call})
    first["options"] = {"budget": 2000}
    [again] = imported(write(first))
    assert exported(again) == first


def test_a_chat_that_is_not_there_cannot_be_exported() -> None:
    chat_id = uuid4()
    assert refusal("export_chat", chat_id) == f"There is no chat {chat_id}."
    assert refusal("export_chat", "nope") == "There is no chat nope."


# --- create_token


def authenticate(token: str) -> User:
    door = TokenAuthentication()
    user, _ = door.authenticate_credentials(token.strip().encode())
    assert isinstance(user, User)
    return user


def test_create_token_prints_a_working_token(alice: User) -> None:
    token = run("create_token", "alice")
    assert len(token.splitlines()) == 1
    assert authenticate(token) == alice
    stored = AuthToken.objects.get()
    assert stored.expiry is None
    assert token.strip() not in stored.digest
    run("create_token", "alice", "--expires", 30)
    expiry = AuthToken.objects.exclude(pk=stored.pk).get().expiry
    assert abs(expiry - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)


@pytest.mark.parametrize("days", [0, -1, 10**9])
def test_a_strange_number_of_days_is_refused(days: int) -> None:
    assert refusal("create_token", "alice", f"--expires={days}") == "--expires must be from 1 to 36500 days."
    assert not AuthToken.objects.exists()


def test_a_user_made_with_a_token_is_a_normal_account() -> None:
    token = run("create_token", "bot", "--create").strip()
    bot = User.objects.get(username="bot")
    rights = (bot.is_active, bot.is_staff, bot.is_superuser, bot.has_usable_password())
    assert rights == (True, False, False, False)
    answer = Client().get("/v1/me", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.json()["username"]) == (200, "bot")
    User.objects.update(is_staff=True)
    run("create_token", "bot", "--create")
    assert (User.objects.get(username="bot").is_staff, AuthToken.objects.count()) == (True, 2), "as it is"


def test_create_token_rejects_unknown_or_invalid_user() -> None:
    assert refusal("create_token", "nobody") == "There is no user 'nobody'."
    told = refusal("create_token", "a b", "--create")
    assert told.startswith("'a b' cannot be a user's name: ")
    assert not User.objects.filter(username__in=["nobody", "a b"]).exists()


# --- revoke_tokens


def test_revoke_tokens_includes_inactive_users(alice: User) -> None:
    token = run("create_token", "alice")
    run("create_token", "alice", "--expires", 30)
    kept = run("create_token", User.objects.create_user("bob").username)
    User.objects.filter(username="alice").update(is_active=False)
    assert run("revoke_tokens", "alice") == "alice: tokens revoked: 2.\n"
    with pytest.raises(AuthenticationFailed):
        authenticate(token)
    assert authenticate(kept).username == "bob"
    assert run("revoke_tokens", "alice") == "alice: tokens revoked: 0.\n"
    assert refusal("revoke_tokens", "nobody") == "There is no user 'nobody'."


def test_sessions_end_too_where_that_is_asked_for(alice: User) -> None:
    browsers = [Client(), Client()]
    for browser, user in zip(browsers, (alice, User.objects.create_user("bob")), strict=True):
        browser.force_login(user)
    assert run("revoke_tokens", "alice", "--sessions") == "alice: tokens revoked: 0, sessions ended: 1.\n"
    assert [SESSION_KEY in browser.session for browser in browsers] == [False, True]
