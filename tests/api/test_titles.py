"""Titles made from the first message: marked as such, and removed with the text they were made from."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError

from conversations import message_changes
from conversations.models import Chat, Message
from tests.api.talking import Turn
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

LONG = "My order AB-1234, which I placed three weeks ago in your shop, has not arrived."


def titled(client: Client, chat: str) -> tuple[str, bool]:
    told = client.get(f"chats/{chat}").json()
    (listed,) = [one for one in client.get("chats").json()["results"] if one["id"] == chat]
    assert listed == told
    return told["title"], told["title_is_automatic"]


def ask_all(client: Client, *messages: str, chat: str | None = None) -> list[Turn]:
    turns: list[Turn] = []
    for message in messages:
        turns.append(Turn.of(client.ask(message, turns[-1].chat if turns else chat)))
    return turns


def forget(client: Client, turn: Turn) -> None:
    assert client.delete(f"chats/{turn.chat}/messages/{turn.question}").status_code == 204


# Where they come from


ENGLAND = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
CONTROLS = "a\u202eb\u0007c\u001b[31m\u2066 red\u2028two"


def test_title_loses_control_and_direction_characters_wherever_it_comes_from(
    alice: Client, upstream: FakeUpstream, tmp_path: Path
) -> None:
    (turn,) = ask_all(alice, f"{CONTROLS} {ENGLAND}")
    assert titled(alice, turn.chat) == ("abc[31m red", True)
    given = alice.post("chats", json={"title": f"{CONTROLS} {ENGLAND}"}).json()
    assert given["title"] == f"abc[31m red two {ENGLAND}"
    renamed = alice.patch(f"chats/{turn.chat}", json={"title": CONTROLS}).json()
    assert renamed["title"] == "abc[31m red two"
    file, messages = tmp_path / "chats.json", [{"role": "user", "content": "Hello"}]
    own = {"format": "chatmemory/1", "title": CONTROLS, "messages": messages}
    file.write_text(json.dumps([own, {"title": CONTROLS, "messages": messages}]))
    call_command("import_chat", str(file), user="alice", stdout=StringIO())
    assert Chat.objects.filter(title="abc[31m red two").count() == 3


@pytest.mark.parametrize("messages", [["Hello there"], ["\u200b", "Hello there"]])
def test_empty_chat_gets_title_of_first_message(alice: Client, upstream: FakeUpstream, messages: list[str]) -> None:
    chat = alice.post("chats", json={}).json()
    assert (chat["title"], chat["title_is_automatic"]) == ("", False)
    ask_all(alice, *messages, chat=chat["id"])
    assert titled(alice, chat["id"]) == ("Hello there", True)


def test_a_title_that_a_client_gave_stays(alice: Client, upstream: FakeUpstream) -> None:
    chat = alice.post("chats", json={"title": "Mine"}).json()["id"]
    (turn,) = ask_all(alice, "Hello there", chat=chat)
    assert titled(alice, chat) == ("Mine", False)
    forget(alice, turn)
    assert titled(alice, chat) == ("Mine", False)


def test_a_client_that_wants_no_title_gets_none(alice: Client, upstream: FakeUpstream) -> None:
    (turn,) = ask_all(alice, "Hello there")
    alice.patch(f"chats/{turn.chat}", json={"title": ""})
    ask_all(alice, "Are you there?", chat=turn.chat)
    assert titled(alice, turn.chat) == ("", False)


# Where they go


def test_forget_removes_text_from_title(alice: Client, upstream: FakeUpstream) -> None:
    first, second = ask_all(alice, "The code is heron-17", "And a second one")
    forget(alice, second)
    assert titled(alice, first.chat) == ("The code is heron-17", True)
    alice.patch(f"chats/{first.chat}", json={"metadata": {"a": 1}, "title": "The code is heron-17"})
    forget(alice, first)
    assert titled(alice, first.chat) == ("", True)
    assert alice.get("chats?search=heron").json()["results"] == []
    ask_all(alice, "Something else", chat=first.chat)
    assert titled(alice, first.chat) == ("Something else", True)


def test_an_edit_makes_it_anew(alice: Client, upstream: FakeUpstream) -> None:
    (turn,) = ask_all(alice, "The code is heron-17")
    answer = alice.patch(f"chats/{turn.chat}/messages/{turn.question}", json={"content": "The code is …"})
    assert answer.status_code == 200
    assert titled(alice, turn.chat) == ("The code is …", True)


@pytest.mark.parametrize("message", first_of([LONG, "Where is it?", "  Where?\nWhen?", "\ufeffWhere is it?"]))
def test_a_title_that_repeats_the_message_goes_with_it(alice: Client, upstream: FakeUpstream, message: str) -> None:
    """A title as playgrounds made it before the server did."""
    (turn,) = ask_all(alice, message)
    made = message.strip().strip("\ufeff").split("\n")[0][:60].strip()
    Chat.objects.filter(pk=turn.chat).update(title=made, title_is_automatic=False)
    forget(alice, turn)
    assert titled(alice, turn.chat) == ("", True)


def test_title_and_message_go_together_or_not_at_all(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    (turn,) = ask_all(alice, "The code is heron-17")

    def fail(*_: Any, **__: Any) -> None:
        raise DatabaseError

    with monkeypatch.context() as patch:
        patch.setattr(message_changes, "message_changed", fail)
        assert alice.delete(f"chats/{turn.chat}/messages/{turn.question}").status_code >= 500
    assert Message.objects.get(pk=turn.question).content == "The code is heron-17"
    assert titled(alice, turn.chat) == ("The code is heron-17", True)
