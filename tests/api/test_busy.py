"""A reply while it is written: other requests are refused, it can be cancelled, and ends if its process does."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from chatmemory.database import executors
from chatmemory.runtime import process
from conversations.models import ActiveReply
from conversations.replies import finish, generation
from conversations.replies.finish import finish_expired
from memory.worker.sweep import sweep
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
from tests.support.exhaustive import first_row_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer, joined
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


def test_readers_are_sent_on_and_new_turns_refused(alice: Client, upstream: FakeUpstream, drain: Any) -> None:
    upstream.hold("stream")
    with open_stream(alice) as (turn, events):
        drain()
        assert [event.name for event in events] == ["reconnect"]
    refused = alice.post("message/first", json={"message": "Hello"})
    error(refused, 503, "unavailable")
    assert refused.headers["Retry-After"] == "1"
    upstream.release("stream")
    assert final(alice, turn)["status"] == "complete", "it had its time"


def test_drain_timeout_keeps_partial_reply(alice: Client, upstream: FakeUpstream, drain: Any, settings: Any) -> None:
    settings.REPLY_DRAIN_SECONDS = 0.2
    upstream.behave("stall?after=5", lane="stream")
    with open_stream(alice, "A sentence of which only the beginning is answered") as (turn, events):
        assert next(events).name == "content.delta"
        drain()
        assert list(events)[-1].name == "reconnect"
    cut = final(alice, turn)
    assert (cut["status"], cut["error"]["code"]) == ("incomplete", "interrupted")
    assert cut["content"]


def test_drain_fails_replies_not_begun(alice: Client, upstream: FakeUpstream, drain: Any, settings: Any) -> None:
    settings.REPLY_DRAIN_SECONDS = 0.2
    upstream.hold("stream")
    body = {"model": "arco", "messages": [{"role": "user", "content": "Hello"}], "stream": True}
    with ThreadPoolExecutor() as other:
        answer = other.submit(alice.post, "chat/completions", json=body)
        upstream.wait_until(lambda fake: fake.active)
        drain()
    assert answer.result().status_code == 502


def test_a_server_shuts_down_once_its_replies_are_stored(
    alice: Client,
    live: LiveServer,
    upstream: FakeUpstream,
    drain: Any,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.REPLY_DRAIN_SECONDS = 0.2
    store = finish.finish

    def slowly(*args: Any, **kwargs: Any) -> Any:
        time.sleep(0.5)
        return store(*args, **kwargs)

    monkeypatch.setattr(finish, "finish", slowly)
    upstream.behave("stall?after=5", lane="stream")
    turn = begin_reply(alice, "A sentence of which only the beginning is answered")
    live.run(generation.shut_down())
    assert reply(alice, turn)["status"] == "incomplete"


REPLIES = 2 * generation.FINISHED_AT_ONCE + 1


@pytest.mark.exhaustive
def test_finishing_replies_use_few_writers(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, waiting, most = executors.write, 0, 0

    async def counted(function: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal waiting, most
        is_end = function is finish.finish
        waiting += is_end
        most = max(most, waiting)
        try:
            return await write(function, *args, **kwargs)
        finally:
            waiting -= is_end

    monkeypatch.setattr(executors, "write", counted)
    upstream.hold("stream")
    with ExitStack() as stack:
        turns = [stack.enter_context(open_stream(alice))[0] for _ in range(REPLIES)]
        upstream.release("stream")
        assert [final(alice, turn)["status"] for turn in turns] == ["complete"] * REPLIES
    assert 1 < most <= generation.FINISHED_AT_ONCE
