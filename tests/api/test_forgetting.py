"""Messages edited or forgotten over HTTP: who may do it, when, and what remains."""

from typing import Any

import pytest
from django.apps import apps
from django.core import serializers

from conversations.models import ActiveReply, Chat, Message
from conversations.replies import generation
from tests.api.cards import card_behaviour, card_chat
from tests.api.talking import MESSAGE_KEYS, Turn, begin_reply, error, final, hold_replies, messages, reply
from tests.support.factories import brief_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import run_fold
from tests.support.live_server import Client
from tests.support.waiting import wait_for

pytestmark = pytest.mark.postgres

SECRET = "the blue heron sleeps at 17 Harbour Lane"


def path(turn: Turn, message: str) -> str:
    return f"chats/{turn.chat}/messages/{message}"


def dump() -> str:
    """Return everything that is stored, as text."""
    return "".join(serializers.serialize("json", model._base_manager.all()) for model in apps.get_models())


def prompt(upstream: FakeUpstream) -> str:
    """Return the newest prompt that was sent for a reply."""
    return upstream.calls("stream")[-1].text


def test_a_message_is_edited(alice: Client, upstream: FakeUpstream) -> None:
    turn = Turn.of(alice.ask(SECRET))
    before = reply(alice, Turn(turn.chat, turn.question, turn.question))
    answer = alice.patch(path(turn, turn.question), json={"content": "  The heron is grey. "})
    assert answer.status_code == 200
    edited = answer.json()
    assert set(edited) == set(MESSAGE_KEYS)
    assert (edited["content"], edited["status"], edited["seq"]) == ("  The heron is grey. ", "complete", 1)
    assert edited["edited_at"] > before["created_at"]
    assert 0 < edited["token_count"] < before["token_count"]
    assert messages(alice, turn.chat)[0] == edited
    assert messages(alice, turn.chat)[1]["reply_to"] == turn.question
    alice.patch(path(turn, turn.reply), json={"content": "I see."})
    alice.ask("And now?", turn.chat)
    assert "grey" in prompt(upstream)
    assert SECRET not in prompt(upstream)
    assert SECRET not in dump()


def test_an_edit_that_changes_nothing_leaves_no_trace(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.RATE_LIMITS = False  # calls are not counted
    turn = Turn.of(alice.ask("Hello"))
    before = dump()
    answer = alice.patch(path(turn, turn.question), json={"content": "Hello"})
    assert (answer.status_code, answer.json()["edited_at"]) == (200, None)
    assert dump() == before


def test_the_limit_of_a_message_holds_for_an_edit(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.MESSAGE_MAX_CHARS = 10
    turn = Turn.of(alice.ask("Hello"))
    assert alice.patch(path(turn, turn.question), json={"content": "x" * 10}).status_code == 200
    for wrong in ("x" * 11, "  ", "a\0b", None, 7):
        error(alice.patch(path(turn, turn.question), json={"content": wrong}), 400, "invalid_request")
    assert alice.patch(path(turn, turn.question), json={}).json()["content"] == "x" * 10
    error(alice.patch(path(turn, turn.question), json={"content": "x", "seq": 1}), 400, "invalid_request")


def test_a_message_is_forgotten(alice: Client, upstream: FakeUpstream) -> None:
    upstream.script("stream", "normal?text=Noted.")
    body = {"message": SECRET, "stream": False, "metadata": {"note": SECRET}}
    turn = Turn.of(alice.post("message/first", json=body).json())
    assert dump().count(SECRET) >= 2
    assert alice.delete(path(turn, turn.question)).status_code == 204
    assert SECRET not in dump()
    left = alice.get(path(turn, turn.question)).json()
    assert (left["content"], left["status"], left["seq"], left["metadata"]) == ("", "deleted", 1, {})
    assert (left["token_count"], left["error"], left["reply_to"]) == (0, None, None)
    assert [row["seq"] for row in messages(alice, turn.chat)] == [1, 2]
    assert reply(alice, turn)["content"] == "Noted.", "an answer is a message of its own"
    alice.ask("What did I say?", turn.chat)
    assert SECRET not in prompt(upstream)
    assert "Noted." in prompt(upstream)


def test_forgotten_reply_keeps_its_cost(alice: Client, upstream: FakeUpstream) -> None:
    upstream.script("stream", f"normal?text={SECRET}")
    turn = Turn.of(alice.ask("Where?"))
    before, bill = reply(alice, turn), alice.get("usage").json()
    assert SECRET in before["content"]
    assert alice.delete(turn.path).status_code == 204
    assert SECRET not in dump()
    assert reply(alice, turn)["usage"] == before["usage"]
    assert alice.get("usage").json() == bill
    again = alice.post(f"{turn.path}/regenerate", json={"stream": False}).json()
    assert again["message"]["status"] == "complete"


def test_forgotten_message_stays_forgotten(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.RATE_LIMITS = False  # calls are not counted
    turn = Turn.of(alice.ask("Hello"))
    alice.delete(path(turn, turn.question))
    before = dump()
    assert alice.delete(path(turn, turn.question)).status_code == 204
    error(alice.patch(path(turn, turn.question), json={"content": "x"}), 409, "conflict")
    error(alice.post(f"{turn.path}/regenerate", json={"stream": False}), 409, "conflict")
    assert dump() == before


def test_a_reply_being_written_and_its_question_wait(alice: Client, upstream: FakeUpstream) -> None:
    first = Turn.of(alice.ask("First " + SECRET))
    hold_replies(upstream)
    turn = begin_reply(alice, "now", first.chat)
    for message in (turn.reply, turn.question):
        told = alice.patch(path(turn, message), json={"content": "x"})
        error(told, 409, "chat_busy")
        assert told.headers["retry-after"]
        error(alice.delete(path(turn, message)), 409, "chat_busy")
    assert alice.delete(path(turn, first.question)).status_code == 204
    assert alice.delete(path(turn, first.reply)).status_code == 204
    upstream.release()
    assert final(alice, turn)["status"] == "complete", "its prompt was sent before: it stays"
    alice.ask("Next", first.chat)
    assert SECRET not in prompt(upstream)
    assert SECRET not in dump()


def test_forget_does_not_wait_for_dead_reply(alice: Client, upstream: FakeUpstream) -> None:
    hold_replies(upstream)
    turn = begin_reply(alice, SECRET)
    wait_for(lambda: ActiveReply.objects.exclude(text="").exists())
    for one in list(generation._running.values()):
        one.abandon()
    wait_for(lambda: not generation._running)
    past = "2020-01-01T00:00:00Z"
    ActiveReply.objects.update(lease_expires_at=past)
    assert alice.delete(path(turn, turn.question)).status_code == 204
    assert reply(alice, turn)["status"] == "incomplete"
    assert SECRET not in dump()
    upstream.release()


def test_a_key_does_not_bring_it_back(alice: Client, upstream: FakeUpstream) -> None:
    upstream.script("stream", f"normal?text=You said {SECRET}")
    key = {"Idempotency-Key": "once"}
    body = {"message": SECRET, "stream": False}
    turn = Turn.of(alice.post("message/first", json=body, headers=key).json())
    alice.delete(path(turn, turn.question))
    alice.delete(turn.path)
    again = alice.post("message/first", json=body, headers=key)
    assert (again.status_code, again.json()["message"]["status"]) == (200, "deleted")
    assert SECRET not in again.text
    streamed = alice.events("POST", "message/first", json={"message": SECRET}, headers={"Idempotency-Key": "two"})
    two = Turn.of(streamed[0].data)
    alice.delete(path(two, two.reply))
    events = alice.events("GET", f"{two.path}/stream")
    assert events[-1].data["message"]["content"] == ""
    assert len(upstream.calls("stream")) == 2


def test_an_answer_that_was_replaced_is_forgotten(alice: Client, upstream: FakeUpstream) -> None:
    upstream.script("stream", f"normal?text={SECRET}", "normal?text=Another.")
    turn = Turn.of(alice.ask("Where?"))
    alice.post(f"{turn.path}/regenerate", json={"stream": False})
    alice.delete(turn.path)
    assert SECRET not in dump()
    assert [row["content"] for row in messages(alice, turn.chat)] == ["Where?", "", "Another."]


def test_forgetting_the_answer_that_another_is_about_to_replace(alice: Client, upstream: FakeUpstream) -> None:
    upstream.script("stream", f"normal?text={SECRET}")
    turn = Turn.of(alice.ask("Where?"))
    hold_replies(upstream)
    with alice.stream("POST", f"{turn.path}/regenerate", json={}) as events:
        new = Turn.of(next(events).data)
        assert alice.delete(turn.path).status_code == 204
        upstream.release()
    assert final(alice, new)["status"] == "complete"
    assert reply(alice, turn)["superseded_by"] == new.reply
    assert SECRET not in dump()


def test_a_card_that_knew_it_is_taken_back(alice: Client, upstream: FakeUpstream) -> None:
    chat = card_chat(alice)
    upstream.script(
        "stream",
        card_behaviour("One.", {"goal": "Walk"}),
        card_behaviour("Two.", {"goal": SECRET[:20]}),
        card_behaviour("Three.", {"goal": SECRET[:20], "decisions": ["go"]}),
    )
    alice.ask("one", chat)
    turn = Turn.of(alice.ask("two", chat))
    alice.ask("three", chat)
    assert SECRET[:20] in dump()
    alice.delete(path(turn, turn.question))
    assert SECRET[:20] not in dump()
    brief = brief_of(chat)
    assert (brief.state["data"]["goal"], brief.version) == ("Walk", 4)
    upstream.script("stream", card_behaviour("Four.", {"goal": "Walk on"}))
    alice.ask("four", chat)
    assert SECRET[:20] not in prompt(upstream)


def test_revisions_that_had_seen_it_say_so(alice: Client, upstream: FakeUpstream) -> None:
    upstream.behave("normal", lane="complete", text=SECRET)
    turn = Turn.of(alice.ask(SECRET))
    for number in range(4):
        alice.ask(f"question {number}", turn.chat)
    alice.post(f"chats/{turn.chat}/resummarize", json={"mode": "update"})
    run_fold(Chat.objects.get(pk=turn.chat))
    assert SECRET in alice.get(f"chats/{turn.chat}/revisions/1").json()["global_summary"]
    alice.delete(path(turn, turn.question))
    alice.delete(turn.path)
    told = alice.get(f"chats/{turn.chat}/revisions").json()["results"]
    assert [one["kind"] for one in told] == ["retract", "fold"]
    assert [one["forgotten_at"] is None for one in told] == [True, False]
    assert [one["global_summary"] for one in told] == ["", ""]
    assert alice.get(f"chats/{turn.chat}/brief").json()["brief"]["global_summary"] == ""
    assert SECRET not in dump()


def test_search_finds_edited_but_not_forgotten_text(alice: Client, upstream: FakeUpstream) -> None:
    upstream.behave("normal", lane="stream", text="Noted.")
    turn = Turn.of(alice.ask("The zeppelin lands at the pier."))
    other = Turn.of(alice.ask("The ferry leaves at noon.", turn.chat))

    def search(word: str) -> list[str]:
        return [one["message"]["id"] for one in alice.post("search", json={"q": word}).json()["results"]]

    assert (search("zeppelin"), search("ferry")) == ([turn.question], [other.question])
    alice.delete(path(turn, turn.question))
    alice.patch(path(other, other.question), json={"content": "The tramway leaves at noon."})
    assert (search("zeppelin"), search("ferry"), search("tramway")) == ([], [], [other.question])
    assert set(Message.objects.filter(pk=turn.question).values_list("terms", flat=True)) == {""}


def test_forget_deletes_all_of_a_completion(alice: Client, upstream: FakeUpstream) -> None:
    schema = {"name": "heron", "schema": {"type": "object", "description": SECRET}}
    body = {
        "model": "arco",
        "messages": [{"role": "user", "content": SECRET}],
        "metadata": {"where": SECRET},
        "user": SECRET,
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    assert alice.post("chat/completions", json=body).status_code == 200
    chat = str(Chat.objects.get().pk)
    for one in messages(alice, chat):
        assert alice.delete(f"chats/{chat}/messages/{one['id']}").status_code == 204
    assert SECRET not in dump()
