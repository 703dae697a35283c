"""One reply at a time per chat: other requests are refused, and a reply whose process is gone blocks only briefly."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chatmemory.runtime import process
from conversations.models import ActiveReply
from conversations.replies.finish import finish_expired
from memory.worker.sweep import sweep
from tests.api.talking import begin_reply, error, final, hold_replies, messages, orphan, reply
from tests.support.exhaustive import first_row_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.waiting import wait_for


def test_second_message_returns_409(alice: Client, upstream: FakeUpstream) -> None:
    hold_replies(upstream)
    turn = begin_reply(alice)
    for path, body in (
        ("message", {"message": "x", "chat_id": turn.chat}),
        (f"chats/{turn.chat}/messages", {"message": "x"}),
        ("message", {"message": "x", "chat_id": turn.chat, "stream": False}),
    ):
        answer = alice.post(path, json=body)
        error(answer, 409, "chat_busy")
        assert int(answer.headers["retry-after"]) >= 1
    assert [row["status"] for row in messages(alice, turn.chat)] == ["complete", "streaming"]
    upstream.release()
    assert final(alice, turn)["status"] == "complete"
    assert alice.ask("now", turn.chat)["message"]["seq"] == 4
    assert len(upstream.calls("stream")) == 2


def test_many_messages_at_once_begin_one(alice: Client, upstream: FakeUpstream) -> None:
    chat = alice.ask("before")["chat_id"]
    hold_replies(upstream)
    with ThreadPoolExecutor(20) as pool:
        body = {"chat_id": chat, "stream": False}
        answers = [pool.submit(alice.post, "message", json={"message": str(n), **body}) for n in range(20)]
        wait_for(lambda: sum(one.done() for one in answers) == 19)
        upstream.release()
        codes = sorted(one.result().status_code for one in answers)
    assert codes == [200, *[409] * 19]
    assert [row["seq"] for row in messages(alice, chat)] == [1, 2, 3, 4]


@pytest.mark.parametrize("ends_in", [timedelta(seconds=-1), timedelta(days=1)], ids=["past", "clock was set back"])
def test_begin_finishes_reply_of_dead_process(alice: Client, upstream: FakeUpstream, ends_in: timedelta) -> None:
    turn = orphan(alice, upstream, "as far as it came")
    error(alice.post("message", json={"message": "x", "chat_id": turn.chat}), 409, "chat_busy")
    ActiveReply.objects.update(lease_expires_at=timezone.now() + ends_in)
    assert alice.ask("next", turn.chat)["message"]["seq"] == 4
    left = reply(alice, turn)
    assert (left["status"], left["content"]) == ("incomplete", "as far as it came")
    assert left["error"]["code"] == "interrupted"
    assert ("assistant", "as far as it came\n[cut off]") in upstream.calls("stream")[-1].said


def test_the_sweep_finishes_it_too(alice: Client, upstream: FakeUpstream) -> None:
    said, unsaid = orphan(alice, upstream, "partly"), orphan(alice, upstream, "")
    assert finish_expired() == 0
    ActiveReply.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    with alice.stream("GET", f"{said.path}/stream") as events:
        assert next(events).name == "message.created"
        assert sweep()["replies_finished"] == 2
        assert [event.name for event in events] == ["content.delta", "message.incomplete"]
    assert reply(alice, said)["status"] == "incomplete"
    assert reply(alice, unsaid)["status"] == "failed"
    assert reply(alice, unsaid)["error"]["code"] == "interrupted"
    assert sweep()["replies_finished"] == 0


@pytest.mark.parametrize(
    ("ends_in", "is_over"),
    first_row_of(
        [
            (timedelta(seconds=1), False),
            (timedelta(hours=2.5), False),
            (timedelta(hours=3, minutes=1), True),
            (timedelta(seconds=-1), True),
        ],
        3,
    ),
    ids=str,
)
def test_lease_expires_at_end_or_beyond_maximum(
    alice: Client, upstream: FakeUpstream, settings: Any, ends_in: timedelta, is_over: bool
) -> None:
    """Leases last two hours here, so one that ends in three was taken before the clock was set back."""
    settings.REPLY_LEASE_SECONDS = 2 * 3600
    orphan(alice, upstream, "x")
    ActiveReply.objects.update(lease_expires_at=timezone.now() + ends_in)
    assert finish_expired() == is_over
    ActiveReply.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert finish_expired() == (not is_over)


def test_leases_are_renewed_only_while_writing(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    """An abandoned row of a living process is not kept alive by the other replies of that process."""
    settings.REPLY_LEASE_SECONDS = 0.6
    lost = orphan(alice, upstream, "x")
    ActiveReply.objects.update(lease_owner=process.name())
    before = ActiveReply.objects.get().lease_expires_at
    hold_replies(upstream)
    turn = begin_reply(alice)
    first = ActiveReply.objects.get(message_id=turn.reply).lease_expires_at
    wait_for(lambda: ActiveReply.objects.get(message_id=turn.reply).lease_expires_at > first)
    assert ActiveReply.objects.get(message_id=lost.reply).lease_expires_at == before
    upstream.release()
    assert final(alice, turn)["status"] == "complete"
    wait_for(finish_expired)
    assert reply(alice, lost)["status"] == "incomplete"


def test_reply_that_cannot_be_finished_blocks_no_other(alice: Client, upstream: FakeUpstream) -> None:
    broken, lost = orphan(alice, upstream, "x"), orphan(alice, upstream, "y")
    past = timezone.now() - timedelta(hours=1)
    ActiveReply.objects.update(lease_expires_at=past)
    whole = ActiveReply.objects.get(message_id=broken.reply).context
    ActiveReply.objects.filter(message_id=broken.reply).update(context={})
    assert finish_expired() == 1
    assert reply(alice, lost)["status"] == "incomplete"
    assert ActiveReply.objects.filter(message_id=broken.reply).exists(), "it is not lost, and is tried again"
    ActiveReply.objects.update(context=whole)
    assert finish_expired() == 1
