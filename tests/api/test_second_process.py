"""Two server processes on one database: either serves, resumes and cancels what the other one writes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conversations.models import ActiveReply
from tests.api.talking import Turn, begun, error, held, opened, reply
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined
from tests.support.processes import Product, here
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.exhaustive]


@pytest.fixture(scope="module")
def second(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Product]:
    """Run the other server: a separate process, with an upstream at which nothing listens."""
    folder: Path = tmp_path_factory.mktemp("second")
    with django_db_blocker.unblock(), Product(folder, here(), REPLY_CHECKPOINT_SECONDS="0.1") as product:
        product.server(OPENAI_BASE_URL="http://127.0.0.1:9/v1", OPENAI_API_KEY="sk-test-canary")
        yield product


@pytest.fixture
def there(alice: Client, second: Product) -> Iterator[Client]:
    """A client of the other server with alice's token."""
    client = Client(second.url, alice.token)
    yield client
    client.http.close()


def checkpointed(turn: Turn, text: str) -> None:
    wait_for(lambda: ActiveReply.objects.get(message_id=turn.reply).text == text)


def test_the_other_process_serves_the_rest(alice: Client, there: Client, upstream: FakeUpstream) -> None:
    held(upstream, text="one 😀 two three four five", after=3, deltas=0)
    with opened(alice) as (turn, own):
        checkpointed(turn, "one 😀 two ")
        assert reply(there, turn)["content"] == "one 😀 two "
        with there.stream("GET", f"{turn.path}/stream", params={"after": 4}) as events:
            assert next(events).data["delta"] == "😀 two "
            upstream.release()
            rest = list(events)
        whole = there.events("GET", f"{turn.path}/stream")
        assert joined(whole) == joined(list(own)) == "one 😀 two three four five"
        assert Turn.of(whole[0].data) == turn
    assert joined(rest) == "three four five"
    assert (rest[-1].name, rest[-1].id) == ("message.completed", "25")
    assert len(upstream.calls("stream")) == 1


def test_the_same_key_attaches_there(alice: Client, there: Client, upstream: FakeUpstream) -> None:
    held(upstream)
    again = {"json": {"message": "x"}, "headers": {"Idempotency-Key": "k"}}
    with alice.stream("POST", "message/first", **again) as events:
        created = next(events)
        with there.stream("POST", "message/first", **again) as same:
            assert next(same).data == created.data
            upstream.release()
            assert joined(list(same)) == joined(list(events))
    whole = there.post("message/first", json={"message": "x", "stream": False}, headers=again["headers"])
    assert whole.json()["message"]["status"] == "complete"
    assert len(upstream.calls("stream")) == 1


def test_cancelled_from_there(alice: Client, there: Client, upstream: FakeUpstream) -> None:
    held(upstream)
    turn = begun(alice)
    with alice.stream("GET", f"{turn.path}/stream") as events:
        next(events)
        said = next(events).data["delta"]
        message = there.post(f"{turn.path}/cancel").json()["message"]
        assert (message["status"], message["content"]) == ("cancelled", said)
        assert [event.name for event in events] == ["message.cancelled"]
    upstream.wait_until(lambda fake: fake.active == 0)
    upstream.release()


def test_deleted_from_there(alice: Client, there: Client, upstream: FakeUpstream) -> None:
    held(upstream)
    turn = begun(alice)
    assert there.delete(f"chats/{turn.chat}").status_code == 204
    upstream.wait_until(lambda fake: fake.active == 0)
    upstream.release()
    error(alice.get(turn.path), 404, "not_found")


def test_neither_process_shows_a_piece_of_a_memory_card(
    alice: Client, there: Client, upstream: FakeUpstream
) -> None:
    chat = alice.post("chats", json={"policy": "card"}).json()["id"]
    said = 'one two <MEMORY_CARD>{"goal":"Learn"}</MEMORY_CARD> three'
    held(upstream, text=said, hold_after=6, deltas=0)
    with opened(alice, chat=chat) as (turn, own):
        checkpointed(turn, "one two")
        with there.stream("GET", f"{turn.path}/stream") as events:
            assert next(events).name == "message.created"
            assert next(events).data["delta"] == "one two"
            upstream.release()
            rest = list(events)
        list(own)
    assert (joined(rest), rest[-1].data["message"]["content"]) == (" three", "one two three")
    assert there.get(f"chats/{chat}/brief").json()["state"]["data"]["goal"] == "Learn"
