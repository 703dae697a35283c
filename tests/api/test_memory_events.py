"""`memory.updated` in streams: only on request, from the prompt of the reply before on, and until the reply's end."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.core.management import call_command

from conversations.models import Chat
from tests.support.factories import add_turns
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, Event

WANTED = {"memory_events": True}


def versions(events: Sequence[Event]) -> list[int]:
    return [event.data["version"] for event in events if event.name == "memory.updated"]


def fold(chat_id: str) -> None:
    call_command("resummarize", chat_id, sync=True)


@pytest.fixture
def chat_id(alice: Client, upstream: FakeUpstream) -> str:
    """A chat whose memory changed since its last reply."""
    chat_id = alice.ask("My order AB-1234 has not arrived.")["message"]["chat_id"]
    add_turns(Chat.objects.get(pk=chat_id), [(f"Order AB-{number}", "Noted.") for number in range(8)])
    fold(chat_id)
    return str(chat_id)


def say(client: Client, chat_id: str, **fields: Any) -> list[Event]:
    return client.events("POST", f"chats/{chat_id}/messages", json={"message": "And?", **fields})


def test_stream_sends_memory_changes_once_and_first(alice: Client, chat_id: str) -> None:
    events = say(alice, chat_id, **WANTED)
    assert [event.name for event in events[:2]] == ["message.created", "memory.updated"]
    told = events[1].data
    assert versions(events) == [1]
    assert told["tokens_before"] > 0 < told["turns"]
    assert told["lost_count"] == len(told["lost"])
    assert told["counted_with"] == "o200k_base"
    stored = alice.get(f"chats/{chat_id}/revisions/1").json()
    assert (told["lost"], told["tokens_after"]) == (stored["retained"]["lost"], stored["tokens_after"])
    assert alice.get(told["links"]["difference"]).json()["version"] == 1
    assert versions(say(alice, chat_id, **WANTED)) == []


def test_memory_events_reach_only_their_chat(alice: Client, chat_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.events.since_last_prompt", None)
    assert versions(say(alice, chat_id)) == []
    assert alice.ask("And?", chat_id, **WANTED)["message"]["status"] == "complete"


def test_fold_during_reply_is_sent_before_its_end(alice: Client, chat_id: str, upstream: FakeUpstream) -> None:
    say(alice, chat_id)
    upstream.hold("stream")
    body = {"message": "And?", **WANTED}
    with alice.stream("POST", f"chats/{chat_id}/messages", json=body) as events:
        created = next(events)
        fold(chat_id)
        upstream.release("stream")
        rest = list(events)
    assert created.name == "message.created"
    assert versions(rest) == [2]
    assert rest[-1].name == "message.completed"


def test_a_stream_that_is_resumed_tells_it_again(alice: Client, chat_id: str) -> None:
    reply = say(alice, chat_id)[0].data["message_id"]
    say(alice, chat_id)
    path = f"chats/{chat_id}/messages/{reply}/stream"
    assert versions(alice.events("GET", path, params={"memory_events": "true"})) == [1]
    assert versions(alice.events("GET", path)) == []
    answer = alice.get(path, params={"memory_events": "maybe"})
    assert (answer.status_code, list(answer.json()["error"]["details"])) == (400, ["memory_events"])


def test_a_regenerated_reply_tells_it_and_a_first_one_has_nothing_to_tell(alice: Client, chat_id: str) -> None:
    path = f"chats/{chat_id}/messages/{alice.ask('And?', chat_id)['message']['id']}/regenerate"
    fold(chat_id)
    assert versions(alice.events("POST", path, json=WANTED))
    assert versions(alice.events("POST", "message/first", json={"message": "Hello", **WANTED})) == []
