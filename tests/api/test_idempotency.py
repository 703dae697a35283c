"""One key is one message, one upstream call and one answer, however often and however early it is repeated."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from conversations.models import Chat, IdempotencyKey, Message
from conversations.replies.begin import RequestKey
from tests.api.talking import Turn, error, hold_replies, messages
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, Event, joined
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.postgres, pytest.mark.pgbouncer]

KEY = {"Idempotency-Key": "key-1"}


def send(client: Client, path: str, body: dict[str, Any], key: str = "key-1") -> dict[str, Any]:
    answer = client.post(path, json={"stream": False, **body}, headers={"Idempotency-Key": key})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def doors(client: Client) -> list[tuple[str, dict[str, Any]]]:
    """Return every POST that makes a message."""
    turn = Turn.of(client.ask("before"))
    return [
        ("message/first", {"message": "x"}),
        ("message", {"message": "x", "chat_id": turn.chat}),
        (f"chats/{Turn.of(client.ask('before')).chat}/messages", {"message": "x"}),
        (f"{Turn.of(client.ask('before')).path}/regenerate", {}),
    ]


@pytest.mark.promise("P2")
def test_the_same_request_twice_is_one_turn_at_every_door(alice: Client, upstream: FakeUpstream) -> None:
    for number, (path, body) in enumerate(doors(alice)):
        upstream.clear()
        first = send(alice, path, body, f"key-{number}")
        assert send(alice, path, body, f"key-{number}") == first
        events = alice.events("POST", path, json=body, headers={"Idempotency-Key": f"key-{number}"})
        assert Turn.of(events[0].data) == Turn.of(first)
        assert joined(events) == first["message"]["content"]
        assert events[-1].data["message"] == first["message"]
        assert len(upstream.calls("stream")) == 1
    assert IdempotencyKey.objects.count() == 4


@pytest.mark.promise("P2")
@pytest.mark.parametrize("first", first_of([True, False]))
def test_fifty_at_once_are_one_turn(alice: Client, upstream: FakeUpstream, first: bool) -> None:
    chat = None if first else alice.ask("before")["chat_id"]
    upstream.clear()
    upstream.behave("normal", deltas=30, rate=300.0)
    body = {"message": "x", **({"chat_id": chat} if chat else {})}
    path = "message" if chat else "message/first"

    def one(number: int) -> list[Event]:
        return alice.events("POST", path, json=body, headers=KEY)

    with ThreadPoolExecutor(50) as pool:
        seen = list(pool.map(one, range(50)))
    assert len({joined(events) for events in seen}) == 1
    assert len({Turn.of(events[0].data) for events in seen}) == 1
    assert {events[-1].name for events in seen} == {"message.completed"}
    assert len(upstream.calls("stream")) == 1
    assert Message.objects.filter(content="x").count() == Chat.objects.count() == 1


def test_idempotency_key_is_checked_before_busy(alice: Client, upstream: FakeUpstream) -> None:
    chat = alice.ask("before")["chat_id"]
    hold_replies(upstream)
    body = {"message": "x", "chat_id": chat}
    with alice.stream("POST", "message", json=body, headers=KEY) as events:
        next(events)
        error(alice.post("message", json=body), 409, "chat_busy")
        error(alice.post("message", json=body, headers={"Idempotency-Key": "other"}), 409, "chat_busy")
        with alice.stream("POST", "message", json=body, headers=KEY) as same:
            assert next(same).name == "message.created"
    upstream.release()
    assert IdempotencyKey.objects.count() == 1, "a refused request keeps no key"
    wait_for(lambda: len(messages(alice, chat)) == 4)
    assert send(alice, "message", body, "other")["message"]["seq"] == 6


def test_after_a_failure_the_same_failure(alice: Client, upstream: FakeUpstream) -> None:
    upstream.script("stream", "status?code=500")
    body = {"message": "x", "stream": False}
    first = error(alice.post("message/first", json=body, headers=KEY), 502, "upstream_error")
    assert error(alice.post("message/first", json=body, headers=KEY), 502, "upstream_error") == first
    events = alice.events("POST", "message/first", json={"message": "x"}, headers=KEY)
    assert events[-1].name == "message.failed"
    assert events[-1].data["message"] == first["details"]["message"]
    assert len(upstream.calls("stream")) == 1


CHANGES: list[dict[str, Any]] = [
    {"message": "y"},
    {"message": "x "},
    {"model_variant": "arco-pro"},
    {"instructions": "Be brief."},
    {"metadata": {"a": 1}},
    {"sources": [{"text": "t"}]},
    {"policy": "chunked"},
]


@pytest.mark.promise("P2")
@pytest.mark.parametrize("change", first_of(CHANGES, 2), ids=str)
def test_another_body_is_refused(alice: Client, upstream: FakeUpstream, change: dict[str, Any]) -> None:
    send(alice, "message/first", {"message": "x"})
    answer = alice.post("message/first", json={"message": "x", **change}, headers=KEY)
    error(answer, 422, "idempotency_mismatch")
    assert Chat.objects.count() == len(upstream.calls("stream")) == 1


def test_another_door_is_another_request(alice: Client, upstream: FakeUpstream) -> None:
    first = Turn.of(send(alice, "message/first", {"message": "x"}))
    for path, body in (
        ("message", {"message": "x", "chat_id": first.chat}),
        (f"{first.path}/regenerate", {}),
    ):
        error(alice.post(path, json=body, headers=KEY), 422, "idempotency_mismatch")


def test_a_key_lasts_a_day(alice: Client, upstream: FakeUpstream) -> None:
    first = send(alice, "message/first", {"message": "x"})
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=23, minutes=59))
    assert send(alice, "message/first", {"message": "x"}) == first
    IdempotencyKey.objects.update(created_at=timezone.now() - timedelta(hours=24, minutes=1))
    assert send(alice, "message/first", {"message": "y"})["chat_id"] != first["chat_id"]


@pytest.mark.django_db
def test_a_key_is_looked_up_without_writing() -> None:
    """Completions do so among the reads, which must not wait for SQLite's writer."""
    with CaptureQueriesContext(connection) as queries:
        assert RequestKey(User.objects.create(), "key-1", "").known_turn() is None
    assert [one["sql"][:6] for one in queries.captured_queries] == ["INSERT", "SELECT"]


@pytest.mark.parametrize("key", ["x" * 128, "a key with spaces", "schlüssel".encode("latin-1")], ids=repr)
def test_keys_that_will_do(alice: Client, upstream: FakeUpstream, key: str | bytes) -> None:
    body, headers = {"message": "x", "stream": False}, {"Idempotency-Key": key}
    one, two = (alice.post("message/first", json=body, headers=headers).json()["chat_id"] for _ in range(2))
    assert one == two


def test_invalid_key_is_refused(alice: Client, upstream: FakeUpstream) -> None:
    for key in ("x" * 129, "a\tb", "a\x80b".encode("latin-1")):
        headers = {"Idempotency-Key": key}
        error(alice.post("message/first", json={"message": "x"}, headers=headers), 400, "invalid_request")
    assert not Chat.objects.exists()
    assert not IdempotencyKey.objects.exists()
