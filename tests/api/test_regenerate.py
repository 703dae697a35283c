"""A second answer to the last question: the older one is superseded, and memory counts the turn once."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from memory.briefs import unfolded
from memory.models import ConversationBrief
from tests.api.talking import Turn, begin_reply, error, final, hold_replies, messages, reply
from tests.support.factories import add_turn, make_chat
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined


def again(client: Client, turn: Turn, message: str = "", **fields: Any) -> dict[str, Any]:
    path = f"chats/{turn.chat}/messages/{message or turn.reply}/regenerate"
    answer = client.post(path, json={"stream": False, **fields})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def unfolded_counts(chat: str) -> tuple[int, int]:
    """Return the unfolded turns and their tokens."""
    counts = unfolded(ConversationBrief.objects.get(chat_id=chat))
    return counts.turns, counts.tokens


def test_a_complete_reply_is_superseded(alice: Client, upstream: FakeUpstream) -> None:
    upstream.script("stream", "normal?text=first answer", "normal?text=second and longer answer")
    turn = Turn.of(alice.ask("Question"))
    before = unfolded_counts(turn.chat)
    new = again(alice, turn)
    assert new["user_message_id"] == turn.question
    assert new["message"]["reply_to"] == turn.question
    assert (new["message"]["content"], new["message"]["seq"]) == ("second and longer answer", 3)
    assert reply(alice, turn)["superseded_by"] == new["message"]["id"]
    assert new["message"]["superseded_by"] is None
    turns, tokens = unfolded_counts(turn.chat)
    assert (turns, tokens) == (1, before[1] + 2)
    one, two = upstream.calls("stream")
    assert one.said == two.said, "the second answer does not see the first"
    upstream.behave("normal")
    alice.ask("next", turn.chat)
    said = [content for _, content in upstream.calls("stream")[-1].said]
    assert said == ["Question", "second and longer answer", "next"]


def test_regenerate_streams_and_accepts_variant(alice: Client, upstream: FakeUpstream) -> None:
    turn = Turn.of(alice.ask("Question", model_variant="arco-pro"))
    kept = again(alice, turn)
    assert kept["message"]["model_variant"] == "arco-pro", "the variant that answered answers again"
    path = f"chats/{turn.chat}/messages/{turn.question}/regenerate"
    assert alice.events("POST", path)[-1].data["message"]["model_variant"] == "arco-pro", "an empty body will do"
    events = alice.events("POST", path, json={"model_variant": "deep-dive"})
    assert (events[0].name, events[-1].name) == ("message.created", "message.completed")
    assert events[0].data["user_message_id"] == turn.question
    assert events[-1].data["message"]["model_variant"] == "deep-dive"
    assert joined(events) == "You said: Question"
    assert unfolded_counts(turn.chat)[0] == 1


def test_regenerate_resends_instructions_and_sources(alice: Client, upstream: FakeUpstream) -> None:
    turn = Turn.of(alice.ask("Question", instructions="Be brief.", sources=[{"text": "A source."}]))
    again(alice, turn)
    one, two = upstream.calls("stream")
    assert one.body == two.body


@pytest.mark.parametrize("fault", ["status?code=500", "cut?after=1600"])
def test_a_failed_or_cut_reply_can_be_retried(alice: Client, upstream: FakeUpstream, fault: str) -> None:
    upstream.script("stream", fault)
    turn = begin_reply(alice, "Question")
    assert final(alice, turn)["status"] in ("failed", "incomplete")
    new = again(alice, turn)
    assert new["message"]["content"] == "You said: Question"
    assert reply(alice, turn)["superseded_by"] == new["message"]["id"]
    assert unfolded_counts(turn.chat)[0] == 1


def test_a_retry_that_fails_leaves_the_older_answer_standing(alice: Client, upstream: FakeUpstream) -> None:
    turn = Turn.of(alice.ask("Question"))
    upstream.script("stream", "status?code=500")
    path = f"{turn.path}/regenerate"
    failed = error(alice.post(path, json={"stream": False}), 502, "upstream_error")["details"]
    assert failed["message"]["status"] == "failed"
    assert reply(alice, turn)["superseded_by"] is None
    assert unfolded_counts(turn.chat)[0] == 1
    new = again(alice, turn, message=failed["message"]["id"])
    assert reply(alice, turn)["superseded_by"] == new["message"]["id"]


def test_regenerate_answers_an_unanswered_question(alice: Client, upstream: FakeUpstream) -> None:
    chat = make_chat(User.objects.get(username="alice"))
    add_turn(chat, "Imported", "An answer.")
    question = add_turn(chat, "Without an answer", None)
    turn = Turn(str(chat.pk), str(question.pk), str(question.pk))
    new = again(alice, turn)
    assert (new["message"]["content"], new["message"]["seq"]) == ("You said: Without an answer", 4)
    assert unfolded_counts(turn.chat)[0] == 2
    assert upstream.calls("stream")[-1].said[-1] == ("user", "Without an answer")
    assert [role for role, _ in upstream.calls("stream")[-1].said] == ["user", "assistant", "user"]


def test_regenerate_accepts_only_last_answered_turn(alice: Client, bob: Client, upstream: FakeUpstream) -> None:
    turn = Turn.of(alice.ask("one"))
    alice.ask("two", turn.chat)
    for message in (turn.reply, turn.question):
        path = f"chats/{turn.chat}/messages/{message}/regenerate"
        error(alice.post(path, json={}), 409, "conflict")
        error(bob.post(path, json={}), 404, "not_found")
    error(alice.post(f"chats/{turn.chat}/messages/{turn.chat}/regenerate", json={}), 404, "not_found")
    assert len(messages(alice, turn.chat)) == 4
    assert len(upstream.calls("stream")) == 2
    hold_replies(upstream)
    busy = begin_reply(alice)
    for message in (busy.question, busy.reply):
        error(alice.post(f"chats/{busy.chat}/messages/{message}/regenerate", json={}), 409, "chat_busy")
