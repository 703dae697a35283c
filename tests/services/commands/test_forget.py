"""`forget_message` and `forget_user`, as an operator calls them."""

import io
from collections.abc import Iterator
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from conversations import account_deletion
from conversations.models import Chat, Message
from conversations.replies.begin import begin_turn, default_variant
from conversations.replies.reply import TurnRequest
from tests.support.commands import refusal, run
from tests.support.factories import add_turns, make_chat
from tests.support.invariants import check_all

pytestmark = pytest.mark.django_db


@pytest.fixture
def chat() -> Iterator[Chat]:
    made = make_chat()
    add_turns(made, [("the blue heron", "Noted."), ("And?", "Yes.")])
    yield made
    check_all()


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_a_message_is_forgotten_after_asking(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    message = Message.objects.get(chat=chat, seq=1)
    for said in ("no\n", "", "y\n"):
        answer(monkeypatch, said)
        assert "Nothing was done" in refusal("forget_message", chat.pk, message.pk)
    assert Message.objects.filter(status="deleted").count() == 0
    answer(monkeypatch, "yes\n")
    told = run("forget_message", chat.pk, message.pk)
    assert f"Forget message 1 of chat {chat.pk} (user, 14 characters)?" in told
    assert "heron" not in told
    message.refresh_from_db()
    assert (message.status, message.content) == ("deleted", "")
    assert "Forgotten" in run("forget_message", chat.pk, message.pk, yes=True)


def test_forget_reports_what_it_cannot_forget(chat: Chat) -> None:
    other = make_chat()
    message = Message.objects.get(chat=chat, seq=1)
    for ids in ((chat.pk, uuid4()), (other.pk, message.pk)):
        assert refusal("forget_message", *ids, yes=True).startswith("There is no message")
    begin_turn(chat.owner, TurnRequest(message="now", variant=default_variant()), chat_id=chat.pk)
    asked = Message.objects.get(chat=chat, seq=5)
    assert "A reply is being written" in refusal("forget_message", chat.pk, asked.pk, yes=True)


def test_a_user_is_erased_after_asking(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "\n")
    assert "Nothing was done" in refusal("forget_user", "alice")
    assert User.objects.get(username="alice").is_active
    told = run("forget_user", "alice", yes=True)
    assert told == "Erased: alice with 1 chats and 4 messages.\n"
    assert not User.objects.exists()
    assert not Chat.objects.exists()
    assert "There is no user 'alice'" in refusal("forget_user", "alice", yes=True)


def test_erase_user_resumes_after_interruption(chat: Chat) -> None:
    account_deletion.request_erasure(chat.owner_id)
    assert not account_deletion.erase(chat.owner_id, until=0)
    assert "Erased" in run("forget_user", "alice", yes=True)
    assert not User.objects.exists()
