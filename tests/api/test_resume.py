"""The rest of a reply, from any position: no gap, nothing twice, and past the end only the final event."""

from typing import Any

import pytest
from django.db import OperationalError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conversations.models import ActiveReply
from conversations.replies import finish
from tests.api.talking import Turn, begin_reply, error, hold_replies, open_stream
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined
from tests.support.waiting import wait_for

TEXT = "One 😀 two, e\u0301 three 👩‍👩‍👧\u2028 four.\n ende"
some = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


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


@some
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
