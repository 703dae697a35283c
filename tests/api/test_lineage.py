"""Versions of a chat's memory over HTTP: read, compared, restored, and told in streams that ask for it."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command

from conversations.models import Chat
from memory.models import SummaryRevision
from tests.api.talking import error, hold_replies, open_stream
from tests.processes.prompts import code
from tests.support.factories import add_turns
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, Event


def fold(chat_id: str) -> None:
    """Fold everything beyond the window."""
    call_command("resummarize", chat_id, sync=True)


def turns(first: int, last: int) -> list[tuple[str, str]]:
    """Return turns of about 240 tokens with a code each."""
    return [(f"Note {code(n)}: {lorem(80)}", f"{code(n)} is noted. {lorem(80)}") for n in range(first, last + 1)]


@pytest.fixture
def chat(alice: Client, upstream: FakeUpstream, settings: Any) -> str:
    """A chat whose memory has two versions, of 5 turns and of 9. Its window has three more."""
    settings.MEMORY_FOLD_BITE_TOKENS = 6000
    chat_id: str = alice.post("chats", json={}).json()["id"]
    stored = Chat.objects.get(pk=chat_id)
    add_turns(stored, turns(1, 8))
    fold(chat_id)
    add_turns(stored, turns(9, 12))
    fold(chat_id)
    return chat_id


def revisions(client: Client, chat: str) -> list[dict[str, Any]]:
    """Return all versions, newest first."""
    found: list[dict[str, Any]] = client.get(f"chats/{chat}/revisions").json()["results"]
    return found


def test_the_difference_from_one_version_to_another(alice: Client, chat: str) -> None:
    first, second = (alice.get(f"chats/{chat}/revisions/{n}").json()["global_summary"] for n in (1, 2))
    found = alice.get(f"chats/{chat}/revisions/2/diff").json()
    assert sorted(found) == ["against", "against_policy", "gained", "lost", "pieces", "policy", "version"]
    assert (found["version"], found["against"]) == (2, 1)
    assert {piece["op"] for piece in found["pieces"]} == {"equal", "insert", "delete"}
    older = "".join(piece["text"] for piece in found["pieces"] if piece["op"] != "insert")
    newer = "".join(piece["text"] for piece in found["pieces"] if piece["op"] != "delete")
    assert older.endswith(first)
    assert newer.endswith(second)
    assert found["gained"] == [code(n) for n in range(6, 10)]
    assert found["lost"] == []
    back = alice.get(f"chats/{chat}/revisions/1/diff?against=2").json()
    assert (back["version"], back["against"], back["lost"]) == (1, 2, found["gained"])
    same = alice.get(f"chats/{chat}/revisions/2/diff?against=2").json()
    assert [piece["op"] for piece in same["pieces"]] == ["equal"]
    begun = alice.get(f"chats/{chat}/revisions/1/diff").json()
    assert begun["against"] is None
    assert [piece["op"] for piece in begun["pieces"]] == ["insert"]


def test_versions_that_do_not_exist(alice: Client, chat: str) -> None:
    for version in ("3", "0", "99999999999999999999999"):
        path = f"chats/{chat}/revisions/{version}"
        error(alice.get(path), 404, "not_found")
        error(alice.get(f"{path}/diff"), 404, "not_found")
        error(alice.post(f"{path}/restore"), 404, "not_found")
    diff = f"chats/{chat}/revisions/2/diff"
    error(alice.get(f"{diff}?against=3"), 404, "not_found")
    for against in ("", "x", "0", "-1", "1.5", "99999999999999999999", "%00", "\ud83d"):
        refused = alice.get(diff, params={"against": against.encode(errors="replace")})
        assert "against" in error(refused, 400, "invalid_request")["details"], against
    error(alice.post(f"chats/{chat}/revisions/-1/restore"), 404, "not_found")
    assert len(revisions(alice, chat)) == 2


def test_an_older_version_is_restored_while_a_reply_is_written(
    alice: Client, upstream: FakeUpstream, chat: str
) -> None:
    first = alice.get(f"chats/{chat}/revisions/1").json()
    hold_replies(upstream)
    with open_stream(alice, "And now?", chat) as (turn, events):
        next(events)
        answer = alice.post(f"chats/{chat}/revisions/1/restore")
        assert answer.status_code == 200
        brief = answer.json()
        assert brief == alice.get(f"chats/{chat}/brief").json()
        upstream.release()
        assert list(events)[-1].name == "message.completed"
    assert (brief["version"], brief["brief"]["global_summary"]) == (3, first["global_summary"])
    last = revisions(alice, chat)[0]
    assert (last["kind"], last["parent"], last["turns"], last["cost_usd"]) == ("restore", 1, 0, 0)
    stored = SummaryRevision.objects.get(chat_id=UUID(chat), version=3)
    assert (stored.created_by and stored.created_by.username) == "alice"
    assert alice.get(f"{turn.path}/context").json()["verified"], "of the memory of before"


# Told in streams

WANTED = {"memory_events": True}


def versions(events: Sequence[Event]) -> list[int]:
    return [event.data["version"] for event in events if event.name == "memory.updated"]


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


def test_memory_events_not_asked_for_are_neither_read_nor_sent(
    alice: Client, chat_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
