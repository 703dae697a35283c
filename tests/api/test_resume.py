"""Readers of one reply: however many, they share the reads of the database; the number per user is limited.

From any position they get the rest: no gap, nothing twice, and past the end only the final event.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import timedelta
from threading import Event as Flag
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.db.models.functions import Now
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from chatmemory.llm.protocol import Reply
from conversations.accounts import quotas
from conversations.accounts.models import Allowance
from conversations.models import ActiveReply
from conversations.replies import begin, finish, generation, stream
from conversations.replies.reply import BegunTurn, Ending, Pending, TurnRequest
from tests.api.talking import Turn, begin_reply, error, final, hold_replies, open_stream
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, Event, joined
from tests.support.waiting import wait_for

MANY = 40
"""More readers than are woken together."""


COMPLETION = {"model": "arco", "messages": [{"role": "user", "content": "x"}], "stream": True}


@pytest.fixture
def elsewhere(alice: Client) -> Iterator[Turn]:
    """A reply of alice's that another process writes, played by this test."""
    asked = TurnRequest(message="Hello", variant=begin.default_variant())
    made = begin.begin_turn(User.objects.get(username="alice"), asked, chat_id=None, key="")
    assert isinstance(made, BegunTurn)
    ActiveReply.objects.update(lease_owner="elsewhere", lease_expires_at=Now() + timedelta(minutes=5))
    yield Turn(str(made.pending.chat_id), str(made.pending.user_message.pk), str(made.pending.message_id))
    for active in ActiveReply.objects.all():
        ended(active.text)


def stored(text: str) -> None:
    """Store the text so far, as the other process would."""
    ActiveReply.objects.update(text=text)


def ended(text: str) -> None:
    """Finish the reply, as the other process would."""
    active = ActiveReply.objects.select_related("user_message").get()
    assert finish.finish(Pending.of(active, active.chat), text, Ending.of(Reply("complete"))) is not None


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the positions from which the server's stream look."""
    found: list[int] = []
    look = stream.text_after

    def counted(chat_id: Any, message_id: Any, position: int) -> Any:
        found.append(position)
        return look(chat_id, message_id, position)

    monkeypatch.setattr(stream, "text_after", counted)
    return found


def reading(client: Client, turn: Turn, stack: ExitStack, **options: Any) -> Iterator[Event]:
    return stack.enter_context(client.stream("GET", f"{turn.path}/stream", **options))


def test_all_readers_share_one_poller(alice: Client, elsewhere: Turn, looks: list[int]) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(MANY) as pool:
        readers = [reading(alice, elsewhere, stack) for _ in range(MANY)]
        assert len(stream._pollers) == 1
        first = [next(reader).name for reader in readers]
        stored("one ")
        wait_for(lambda: 4 in looks)
        stored("one two ")
        wait_for(lambda: 8 in looks)
        before = len(looks)
        wait_for(lambda: len(looks) >= before + 5)
        ended("one two three")
        rest: list[list[Event]] = list(pool.map(list, readers))
    assert first == ["message.created"] * MANY
    assert {joined(events) for events in rest} == {"one two three"}
    assert {(events[-1].name, events[-1].id) for events in rest} == {("message.completed", "13")}
    assert looks == sorted(looks), "each look begins where the last one ended"
    wait_for(lambda: len(stream._pollers) == 0)


def test_stream_without_readers_does_not_poll(alice: Client, elsewhere: Turn, looks: list[int]) -> None:
    with ExitStack() as stack:
        readers = [reading(alice, elsewhere, stack) for _ in range(3)]
        assert [next(reader).name for reader in readers] == ["message.created"] * 3
        wait_for(lambda: looks)
    wait_for(lambda: len(stream._pollers) == 0)
    stored("one ")
    late = alice.events  # a new reader causes a new look-up
    with ExitStack() as stack:
        reader = reading(alice, elsewhere, stack, params={"after": 1})
        assert next(reader).data["delta"] == "ne "
        ended("one two")
        assert joined(list(reader)) == "two"
    assert joined(late("GET", f"{elsewhere.path}/stream")) == "one two"


@pytest.mark.promise("P5")
def test_many_readers_in_the_process_that_writes(alice: Client, upstream: FakeUpstream) -> None:
    hold_replies(upstream, deltas=60, after=5)
    turn = begin_reply(alice)
    with ExitStack() as stack, ThreadPoolExecutor(MANY) as pool:
        readers = [reading(alice, turn, stack) for _ in range(MANY)]
        upstream.release()
        rest: list[list[Event]] = list(pool.map(list, readers))
    content = final(alice, turn)["content"]
    for events in rest:
        assert joined(events) == content
        assert [events[0].name, events[-1].name] == ["message.created", "message.completed"]


def test_a_deleted_chat_sends_its_readers_away(alice: Client, elsewhere: Turn) -> None:
    with ExitStack() as stack:
        reader = reading(alice, elsewhere, stack)
        assert next(reader).name == "message.created"
        assert alice.delete(f"chats/{elsewhere.chat}").status_code == 204
        assert [event.name for event in reader] == ["reconnect"]
    error(alice.get(f"{elsewhere.path}/stream"), 404, "not_found")


@pytest.mark.promise("P5")
def test_readers_of_a_reply_that_no_server_can_store_are_sent_away(alice: Client, elsewhere: Turn) -> None:
    """As on a full disk: its process is gone, and whatever tried to finish it since has failed."""
    ActiveReply.objects.update(lease_expires_at=Now() - timedelta(minutes=1))
    with ExitStack() as stack:
        *_, last = reading(alice, elsewhere, stack)
    assert (last.name, last.data["error"]["code"]) == ("reconnect", "unavailable")


def test_a_database_that_is_away_for_a_moment(alice: Client, elsewhere: Turn, monkeypatch: pytest.MonkeyPatch) -> None:
    away, failed, look = Flag(), Flag(), stream.text_after

    def sometimes(*place: Any) -> Any:
        if away.is_set():
            failed.set()
            raise OperationalError("away")
        return look(*place)

    monkeypatch.setattr(stream, "text_after", sometimes)
    with ExitStack() as stack:
        reader = reading(alice, elsewhere, stack)
        next(reader)
        away.set()
        assert failed.wait(10)
        stored("one ")
        away.clear()
        assert next(reader).data["delta"] == "one "
        monkeypatch.setattr(stream, "GIVE_UP_SECONDS", 0.1)
        away.set()
        assert [event.name for event in reader] == ["reconnect"]


# How many a user may have


def refused(answer: Any, allowed: int) -> None:
    details = error(answer, 429, "rate_limited")["details"]
    assert details == {"limit": "readers", "allowed": allowed}
    assert int(answer.headers["retry-after"]) >= 1


def test_a_user_has_so_many_readers(alice: Client, bob: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.LIMIT_READERS = 2
    hold_replies(upstream)
    asked = {"json": {"message": "x"}, "headers": {"Idempotency-Key": "k"}}
    with alice.stream("POST", "message/first", **asked) as own, ExitStack() as stack:
        turn = Turn.of(next(own).data)
        readers = [reading(alice, turn, stack) for _ in range(2)]
        refused(alice.get(f"{turn.path}/stream"), 2)
        for body in ({"message": "x"}, {"message": "x", "stream": False}):
            refused(alice.post("message/first", **(asked | {"json": body})), 2)
        with open_stream(bob) as (others, _), ExitStack() as besides:
            assert next(reading(bob, others, besides)).name == "message.created"
        Allowance.objects.filter(user__username="alice").update(readers=3)
        readers.append(reading(alice, turn, stack))
        refused(alice.get(f"{turn.path}/stream"), 3)
        upstream.release()
        assert list(own)[-1].name == "message.completed"
    wait_for(lambda: alice.get(f"{turn.path}/stream").status_code == 200)


@pytest.mark.parametrize(
    ("path", "body", "again"),
    [
        ("message/first", {"message": "x"}, {"message": "x", "stream": False}),
        ("chat/completions", COMPLETION, COMPLETION),
    ],
)
def test_reader_with_error_is_removed(
    path: str,
    body: dict[str, Any],
    again: dict[str, Any],
    alice: Client,
    upstream: FakeUpstream,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At once, not when the garbage is collected: an error holds the frames that it came through."""

    def away(*place: Any) -> str | None:
        raise OperationalError("away")

    settings.LIMIT_READERS = 1
    hold_replies(upstream, deltas=60, after=5)
    key = {"Idempotency-Key": "k"}
    with alice.http.stream("POST", f"/v1/{path}", json=body, headers=key) as own:
        assert own.status_code == 200
        with monkeypatch.context() as patch:
            patch.setattr(stream, "GIVE_UP_SECONDS", 0)
            patch.setattr(stream, "text_after", away)
            patch.setattr(generation, "running", lambda message_id: None)
            failed = alice.post(path, json=again, headers=key)
        assert (failed.status_code, len(quotas._slots)) == (503, 0)
        upstream.release()
        own.read()


def test_the_limit_is_exact_in_a_burst(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.LIMIT_READERS = 5
    hold_replies(upstream)
    turn, refusals = begin_reply(alice), 25
    with ThreadPoolExecutor(30) as pool:
        answers = [pool.submit(alice.get, f"{turn.path}/stream") for _ in range(30)]
        wait_for(lambda: sum(one.done() for one in answers) == refusals)
        upstream.release()
        assert sorted(one.result().status_code for one in answers) == [200] * 5 + [429] * 25


def test_readers_that_leave_at_once_leave_no_trace(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    """Readers that leave at any moment: before their answer, at its head, in the middle."""
    settings.LIMIT_READERS = 1
    hold_replies(upstream)
    turn = begin_reply(alice)
    for patience in [0.001 * step for step in range(1, 30)]:
        with suppress(httpx.TimeoutException):  # or 429, while the last one is not noticed to be gone
            alice.get(f"{turn.path}/stream", timeout=patience)
    with ExitStack() as stack:
        assert wait_for(lambda: _reads(alice, turn, stack))
        upstream.release()
    assert final(alice, turn)["status"] == "complete"


def _reads(client: Client, turn: Turn, stack: ExitStack) -> bool:
    answer = stack.enter_context(client.http.stream("GET", f"/v1/{turn.path}/stream"))
    return bool(answer.status_code == 200)


# From any position


TEXT = "One 😀 two, e\u0301 three 👩‍👩‍👧\u2028 four.\n ende"


@pytest.mark.promise("P5")
def test_every_position_of_a_finished_reply(alice: Client, upstream: FakeUpstream) -> None:
    upstream.behave("normal", text=TEXT)
    turn = Turn.of(alice.ask("x"))
    whole = alice.events("GET", f"{turn.path}/stream")
    assert [event.name for event in whole] == ["message.created", "content.delta", "message.completed"]
    for position in (*range(1, len(TEXT) + 1), 10**9):
        rest = alice.events("GET", f"{turn.path}/stream", params={"after": position})
        assert joined(rest) == TEXT[position:]
        assert "message.created" not in [event.name for event in rest]
        assert (rest[-1].name, rest[-1].id) == ("message.completed", str(len(TEXT)))
        assert rest[-1].data == whole[-1].data


@hypothesis_settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_running_reply_from_anywhere(alice: Client, upstream: FakeUpstream, data: st.DataObject) -> None:
    words = TEXT.split(" ")
    pause = data.draw(st.integers(0, len(words)), label="deltas before the pause")
    after = data.draw(st.integers(0, len(TEXT) + 3), label="code points the client has")
    header = data.draw(st.booleans(), label="by header")
    hold_replies(upstream, after=pause, text=TEXT, deltas=0)
    turn = begin_reply(alice)
    asked = {"headers": {"Last-Event-ID": str(after)}} if header else {"params": {"after": after}}
    with alice.stream("GET", f"{turn.path}/stream", **asked) as events:
        upstream.release()
        rest = list(events)
    assert joined(rest) == TEXT[after:]
    assert (rest[0].name == "message.created") == (after == 0)
    assert [event.name for event in rest].count("message.completed") == 1
    ids = [int(event.id) for event in rest if event.name == "content.delta" and event.id]
    assert ids == sorted(set(ids))
    assert rest[-1].id == str(len(TEXT))


def test_resume_rejects_unknown_replies(alice: Client, bob: Client, upstream: FakeUpstream) -> None:
    turn = Turn.of(alice.ask("x"))
    error(bob.get(f"{turn.path}/stream"), 404, "not_found")
    error(alice.get(f"chats/{turn.chat}/messages/{turn.question}/stream"), 404, "not_found")
    error(alice.get(f"chats/{turn.chat}/messages/{turn.chat}/stream"), 404, "not_found")
    for bad in ("-1", "x", "1.5", "9" * 30, "²"):
        details = error(alice.get(f"{turn.path}/stream", params={"after": bad}), 400, "invalid_request")["details"]
        assert "after" in details


def test_a_checkpoint_that_fails_is_not_the_last_one(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is unavailable for a moment: text received since is stored as soon as it is back."""
    failed: list[str] = []
    store = finish.store_partial

    def away(*given: Any, **named: Any) -> Any:
        if len(failed) < 2:
            failed.append("once")
            raise OperationalError
        return store(*given, **named)

    monkeypatch.setattr(finish, "store_partial", away)
    hold_replies(upstream, text="one two three", after=2, deltas=0)
    with open_stream(alice) as (turn, _):
        wait_for(lambda: ActiveReply.objects.get(message_id=turn.reply).text)
        assert len(failed) == 2
        upstream.release()
