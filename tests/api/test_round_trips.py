"""What a turn costs on PostgreSQL: queries on the wire, each of them a round trip."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from benchmarks.chats import make_chat
from chatmemory.database.postgresql.base import DatabaseWrapper
from conversations.accounts.models import App
from conversations.replies import finish, generation
from conversations.webhooks.models import WebhookEvent
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.skipif(settings.IS_SQLITE, reason="SQLite is no trip away"), pytest.mark.postgres]

Trips = Callable[[Callable[[], object]], list[str]]
MOST = 16
"""The maximum number of queries: the token, BEGIN and COMMIT of two transactions, 11 statements. Limits are on."""


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Trips]:
    """Return the queries that an act and the reply it begins send, on any connection.

    Checkpoints of the process are off: they come twice a second, however many replies there are, and would be counted
    if one fell into the turn.
    """

    monkeypatch.setattr(finish, "store_partial", lambda grown: None)
    monkeypatch.setattr(finish, "checkpoint", lambda renew, owners: dict.fromkeys(generation._running, False))
    made: list[Any] = []
    with (tmp_path / "wire").open("w+") as log:
        get = DatabaseWrapper.get_new_connection

        def traced(self: DatabaseWrapper, params: dict[str, Any]) -> Any:
            made.append(get(self, params))
            made[-1].pgconn.trace(log.fileno())
            return made[-1]

        monkeypatch.setattr(DatabaseWrapper, "get_new_connection", traced)

        def asked(act: Callable[[], object]) -> list[str]:
            before = len(_queries(log.name))
            act()
            wait_for(lambda: not generation._running)
            return _queries(log.name)[before:]

        yield asked
        for one in made:
            if not one.closed:
                one.pgconn.untrace()


def _queries(log: str) -> list[str]:
    sent = (line.split("\t", 4) for line in Path(log).read_text(errors="replace").splitlines())
    return [parts[-1] for parts in sent if len(parts) > 3 and parts[1:4:2] == ["F", "Query"]]


@pytest.mark.parametrize("turns", [1, 4, 20])
def test_a_turn_takes_few(alice: Client, upstream: FakeUpstream, trips: Trips, turns: int) -> None:
    chat = make_chat(User.objects.get(username="alice"), turns, unfolded=turns, records=False)
    alice.ask("And before that?", str(chat.pk))
    taken = trips(lambda: alice.ask("And then?", str(chat.pk)))
    assert 4 <= len(taken) <= MOST, "\n".join(taken)


def test_so_does_a_first_message(alice: Client, upstream: FakeUpstream, trips: Trips) -> None:
    alice.ask("Hello")  # a user's first call creates the row of the allowance
    taken = trips(lambda: alice.ask("Hello"))
    assert 4 <= len(taken) <= MOST, "\n".join(taken)


def test_telling_an_app_takes_one_statement_more(shop: Client, upstream: FakeUpstream, trips: Trips) -> None:
    chat = shop.ask("Hello")["message"]["chat_id"]
    shop.ask("And then?", chat)
    without = trips(lambda: shop.ask("And then?", chat))
    App.objects.update(webhook_url="https://example.com", webhook_events="reply.completed")
    taken = trips(lambda: shop.ask("And then?", chat))
    assert len(taken) == len(without) + 1, "each turn of an app asks whether to tell"
    assert WebhookEvent.objects.count() == 1
    assert sum("webhookevent" in one for one in taken) == 1
