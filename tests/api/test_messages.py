"""A message comes in, a reply streams out, and both are stored unchanged."""

import dataclasses
from typing import Any

import pytest

from conversations.models import Message
from tests.api.talking import MESSAGE_KEYS, Turn, error, messages, say
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined

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


def test_created_event_describes_the_prompt(alice: Client, upstream: FakeUpstream) -> None:
    first = alice.ask("My code is AB-1234.")
    created = say(alice, "What is it?", first["chat_id"], instructions="Be brief.")[0]
    context = created.data["context"]
    assert set(context) == {"tokens", "budget", "sections"}
    assert [section["kind"] for section in context["sections"]] == ["instructions", "window", "question"]
    assert all(set(section) == {"kind", "tokens"} for section in context["sections"])
    assert context["tokens"] == sum(s["tokens"] for s in context["sections"] if s["kind"] == "window")
    assert 0 < context["tokens"] <= context["budget"] == 3000


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
