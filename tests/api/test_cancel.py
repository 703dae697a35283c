"""Cancelling: the reply ends as `cancelled` with the text so far, and the next message works."""

from datetime import timedelta

from django.utils import timezone

from conversations.models import ActiveReply
from tests.api.talking import (
    Turn,
    begin_reply,
    error,
    final,
    heard,
    hold_replies,
    messages,
    open_stream,
    orphan,
    reply,
)
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined


def test_cancel_keeps_partial_text(alice: Client, upstream: FakeUpstream) -> None:
    hold_replies(upstream)
    with open_stream(alice) as (turn, events):
        said = heard(events)
        answer = alice.post(f"{turn.path}/cancel")
        assert answer.status_code == 200, answer.text
        rest = list(events)
    message = answer.json()["message"]
    assert list(answer.json()) == ["message"]
    assert (message["status"], message["content"], message["error"]) == ("cancelled", said, None)
    assert (rest[-1].name, rest[-1].id) == ("message.cancelled", str(len(said)))
    assert rest[-1].data["message"] == message
    assert set(rest[-1].data["error"]) == {"code", "message"}
    assert joined(rest) == ""
    assert reply(alice, turn) == message
    upstream.wait_until(lambda fake: fake.active == 0)
    upstream.behave("normal")
    upstream.release()
    assert alice.ask("next", turn.chat)["message"]["status"] == "complete"


def test_cancel_before_the_first_word(alice: Client, upstream: FakeUpstream) -> None:
    upstream.hold()
    turn = begin_reply(alice)
    message = alice.post(f"{turn.path}/cancel").json()["message"]
    assert (message["status"], message["content"]) == ("cancelled", "")
    assert [row["status"] for row in messages(alice, turn.chat)] == ["complete", "cancelled"]


def test_a_final_reply_cannot_be_cancelled(alice: Client, upstream: FakeUpstream) -> None:
    done = Turn.of(alice.ask("x"))
    error(alice.post(f"{done.path}/cancel"), 409, "conflict")
    error(alice.post(f"chats/{done.chat}/messages/{done.question}/cancel"), 409, "conflict")
    assert reply(alice, done)["status"] == "complete"
    hold_replies(upstream)
    turn = begin_reply(alice)
    assert alice.post(f"{turn.path}/cancel").status_code == 200
    error(alice.post(f"{turn.path}/cancel"), 409, "conflict")
    assert reply(alice, turn)["status"] == "cancelled"


def test_cancel_of_a_reply_whose_process_is_dead(alice: Client, upstream: FakeUpstream) -> None:
    turn = orphan(alice, upstream, "what the last checkpoint held")
    message = alice.post(f"{turn.path}/cancel").json()["message"]
    assert (message["status"], message["content"]) == ("cancelled", "what the last checkpoint held")
    assert alice.ask("next", turn.chat)["message"]["seq"] == 4


def test_cancel_reaches_the_writing_process(alice: Client, upstream: FakeUpstream) -> None:
    hold_replies(upstream)
    turn = begin_reply(alice)
    ActiveReply.objects.update(cancel_requested=True)  # as another process does
    assert final(alice, turn)["status"] == "cancelled"
    upstream.wait_until(lambda fake: fake.active == 0)


def test_cancel_of_dead_process_is_done_later(alice: Client, upstream: FakeUpstream) -> None:
    turn = orphan(alice, upstream, "partly")
    expired = timezone.now() - timedelta(seconds=1)
    ActiveReply.objects.update(cancel_requested=True, lease_expires_at=expired)
    alice.ask("next", turn.chat)
    assert (reply(alice, turn)["status"], reply(alice, turn)["content"]) == ("cancelled", "partly")
