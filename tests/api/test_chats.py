"""Chats and their messages: created, found, changed, paged, stored unchanged, and deleted without a trace."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from conversations.models import Chat, Message
from conversations.replies import generation
from memory.models import ConversationBrief
from tests.api.talking import (
    MESSAGE_KEYS,
    Turn,
    begin_reply,
    error,
    heard,
    hold_replies,
    messages,
    open_stream,
    paged,
    say,
)
from tests.support.database import traces
from tests.support.factories import add_turns
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined
from tests.support.waiting import wait_for

KEYS = (
    "id title title_is_automatic policy options instructions message_count created_at updated_at metadata "
    "pinned retain_days temporary project across"
).split()
MINE = {
    "title": "Lesson 7",
    "instructions": " Teach. ",
    "options": {"budget": 2000},
    "metadata": {"lesson": [7]},
    "project": "School",
    "across": "pins",
}


def test_a_chat_is_made_read_and_changed(alice: Client, upstream: FakeUpstream) -> None:
    made = alice.post("chats", json=MINE)
    assert made.status_code == 201
    chat = made.json()
    assert sorted(chat) == sorted(KEYS)
    assert {name: chat[name] for name in MINE} == MINE
    assert (chat["policy"], chat["message_count"]) == ("chunked", 0)
    alice.ask("x", chat["id"])
    changed = alice.patch(f"chats/{chat['id']}", json={"title": "New", "metadata": {}}).json()
    assert (changed["title"], changed["metadata"], changed["instructions"]) == ("New", {}, " Teach. ")
    assert changed["message_count"] == 2
    assert changed["updated_at"] > chat["updated_at"]
    assert alice.get(f"chats/{chat['id']}").json() == changed
    assert alice.patch(f"chats/{chat['id']}", json={}).status_code == 200
    empty = alice.post("chats", json={}).json()
    assert (empty["title"], empty["instructions"], empty["options"], empty["metadata"]) == ("", "", {}, {})


def test_a_new_policy_rebuilds_the_memory(alice: Client) -> None:
    chat = alice.post("chats", json={"options": {"k_raw_turns": 4}}).json()["id"]
    assert alice.patch(f"chats/{chat}", json={"title": "x", "policy": "chunked"}).status_code == 200
    assert not ConversationBrief.objects.exists()
    assert alice.patch(f"chats/{chat}", json={"policy": "interval"}).json()["policy"] == "interval"
    assert ConversationBrief.objects.get().requested == "rebuild"


def test_a_reply_being_written_is_on_the_page_of_the_newest(alice: Client, upstream: FakeUpstream) -> None:
    first = alice.ask("x")["chat_id"]
    add_turns(Chat.objects.get(pk=first), [("q", "a"), ("q", "a")])
    hold_replies(upstream)
    turn = begin_reply(alice, "now", first)
    pages = []
    for path in (f"chats/{first}/messages?limit=3", f"chats/{first}/messages?limit=3&order=desc"):
        page = alice.get(path).json()
        pages.append([row["status"] for row in page["results"]])
        while page["next"]:
            page = alice.http.get(page["next"]).json()
            pages.append([row["status"] for row in page["results"]])
    done = ["complete"] * 3
    assert pages == [done, done, ["complete", "streaming"], ["streaming", *done], done, ["complete"]]
    assert messages(alice, first)[-1]["id"] == turn.reply
    upstream.release()


def test_deleting_leaves_nothing_anywhere(alice: Client, upstream: FakeUpstream) -> None:
    kept = Turn.of(alice.ask("kept"))
    key = {"Idempotency-Key": "k"}
    body = {"message": "gone", "stream": False, "instructions": "i", "sources": [{"text": "s"}]}
    turn = Turn.of(alice.post("message/first", json=body, headers=key).json())
    again = Turn.of(alice.post(f"{turn.path}/regenerate", json={"stream": False}).json())
    alice.post(f"chats/{turn.chat}/resummarize", json={"mode": "rebuild"})
    assert len(traces(turn.chat)) >= 5
    assert alice.delete(f"chats/{turn.chat}").status_code == 204
    assert [traces(one) for one in (turn.chat, turn.reply, turn.question, again.reply)] == [[]] * 4
    error(alice.get(f"chats/{turn.chat}"), 404, "not_found")
    error(alice.delete(f"chats/{turn.chat}"), 404, "not_found")
    assert [chat["id"] for chat in paged(alice, "chats")] == [kept.chat]
    assert len(messages(alice, kept.chat)) == 2


def test_deleting_while_a_reply_is_written(alice: Client, upstream: FakeUpstream) -> None:
    hold_replies(upstream)
    with open_stream(alice) as (turn, events):
        heard(events)
        assert alice.delete(f"chats/{turn.chat}").status_code == 204
        assert [event.name for event in events] == ["reconnect"]
    upstream.wait_until(lambda fake: fake.active == 0)
    upstream.release()
    wait_for(lambda: not generation._running)
    assert not Message.objects.exists()
    assert traces(turn.chat) == traces(turn.reply) == []
    error(alice.get(f"{turn.path}/stream"), 404, "not_found")
    assert alice.ask("next")["message"]["status"] == "complete"


def test_delete_chat_during_waiting_request(alice: Client, upstream: FakeUpstream) -> None:
    hold_replies(upstream)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(alice.post, "message/first", json={"message": "x", "stream": False})
        wait_for(lambda: Chat.objects.exists() and upstream.held())
        assert alice.delete(f"chats/{Chat.objects.get().pk}").status_code == 204
        error(waiting.result(), 404, "not_found")
    upstream.release()


EMOJI = "a 😀 b 👩‍👩‍👧 e\u0301 ß 日本 \u2028 end \r\n\t x"


def test_a_first_message_makes_a_chat_and_streams_its_reply(alice: Client, upstream: FakeUpstream) -> None:
    upstream.behave("normal", deltas=20, rate=200.0)
    created, *deltas, completed = say(alice, "Hello there")
    assert created.name == "message.created"
    assert created.id is None
    assert set(created.data) == {"chat_id", "user_message_id", "message_id", "model_variant", "context"}
    assert created.data["model_variant"] == "arco"
    assert {event.name for event in deltas} == {"content.delta"}
    assert len(deltas) > 1
    assert completed.name == "message.completed"
    message = completed.data["message"]
    assert list(completed.data) == ["message"]
    assert sorted(message) == sorted(MESSAGE_KEYS)
    assert message["content"] == joined(deltas)
    turn = Turn.of(created.data)
    assert messages(alice, turn.chat)[1] == message
    assert (message["id"], message["reply_to"], message["seq"]) == (turn.reply, turn.question, 2)


@pytest.mark.parametrize("style", ["responses", "chat"])
def test_ids_of_events_are_code_points(alice: Client, upstream: FakeUpstream, settings: Any, style: str) -> None:
    settings.OPENAI_API_STYLE = style
    upstream.behave("normal", text=EMOJI, rate=100.0)
    events = say(alice)
    length = 0
    for event in events[1:-1]:
        length += len(event.data["delta"])
        assert event.id == str(length)
    assert joined(events) == EMOJI == events[-1].data["message"]["content"]
    assert events[-1].id == str(len(EMOJI))


def test_text_is_kept_untrimmed(alice: Client, upstream: FakeUpstream) -> None:
    said, answered = "  \n two  spaces \t\n", " \n and back \n "
    upstream.behave("normal", text=answered)
    turn = alice.ask(said, metadata={"lesson": {"id": 7, "tags": ["a", None, 1.5]}})
    question, reply = messages(alice, turn["chat_id"])
    assert question["content"] == said
    assert reply["content"] == answered
    assert question["metadata"] == {"lesson": {"id": 7, "tags": ["a", None, 1.5]}}
    assert (question["role"], question["status"], question["seq"]) == ("user", "complete", 1)
    assert (question["is_first"], reply["is_first"]) == (True, False)
    assert question["model_variant"] is question["model"] is question["usage"] is question["error"] is None
    assert Message.objects.get(pk=question["id"]).content == said


def test_the_request_upstream(alice: Client, upstream: FakeUpstream) -> None:
    chat = alice.post("chats", json={"instructions": "You teach."}).json()["id"]
    alice.ask("one", chat)
    alice.ask("two", chat, instructions="Be brief.", sources=[{"title": "T", "text": "Water boils at 100 °C."}])
    first, second = upstream.calls("stream")
    for call in (first, second):
        assert call.body["store"] is False
        assert call.body["prompt_cache_key"] == chat
        assert call.body["model"] == "gpt-5-mini"
        assert "previous_response_id" not in call.body
    assert first.instructions == "You teach."
    assert "You teach." in second.instructions
    assert "Be brief." in second.instructions
    assert second.said[-1] == ("user", "two")
    assert "Water boils at 100 °C." in second.text
    assert {role for role, _ in second.said} == {"user", "assistant"}


def test_switching_variants_changes_nothing_in_memory(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.MODEL_VARIANTS = {
        **settings.MODEL_VARIANTS,
        "deep-dive": dataclasses.replace(settings.MODEL_VARIANTS["deep-dive"], reasoning_effort="high"),
    }
    chat = alice.ask("one")["chat_id"]
    before = alice.post(f"chats/{chat}/context", json={}).json()
    assert alice.post(f"chats/{chat}/context", json={}).json() == before
    deep = alice.ask("two", chat, model_variant="deep-dive")
    arco = alice.ask("three", chat, model_variant="arco")
    assert (deep["message"]["model_variant"], deep["message"]["model"]) == ("deep-dive", "gpt-5.1")
    assert (arco["message"]["model_variant"], arco["message"]["model"]) == ("arco", "gpt-5-mini")
    sent = upstream.calls("stream")
    assert [call.model for call in sent] == ["gpt-5-mini", "gpt-5.1", "gpt-5-mini"]
    assert sent[1].body["reasoning"]["effort"] == "high"
    assert sent[2].said[:4] == [*sent[1].said[:2], ("user", "two"), ("assistant", "You said: two")]
    brief = alice.get(f"chats/{chat}/brief").json()
    assert (brief["version"], brief["unfolded"]["turns"], brief["policy"]) == (0, 3, "chunked")


def test_a_policy_is_chosen_with_the_first_message(alice: Client, upstream: FakeUpstream) -> None:
    chat = alice.ask("one", policy="interval")["chat_id"]
    assert alice.get(f"chats/{chat}").json()["policy"] == "interval"
    assert alice.get(f"chats/{chat}/brief").json()["policy"] == "interval"
    body = {"message": "x", "chat_id": chat, "policy": "chunked"}
    assert "policy" in error(alice.post("message", json=body), 400, "invalid_request")["details"]


def test_model_receives_the_chat_and_prompt_is_recorded(alice: Client, upstream: FakeUpstream) -> None:
    chat = alice.ask("My code is AB-1234.")["chat_id"]
    second = alice.ask("And CD-5678.", chat)
    sent = upstream.calls("stream")[-1]
    assert [role for role, _ in sent.said] == ["user", "assistant", "user"]
    shown = alice.get(f"chats/{chat}/messages/{second['message']['id']}/context").json()
    assert shown["verified"] is True
    assert [(part["role"], part["content"]) for part in shown["prompt"]] == sent.said
    error(alice.get(f"chats/{chat}/messages/{second['user_message_id']}/context"), 404, "not_found")
