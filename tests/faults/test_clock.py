"""A clock that is off by a day: order stays, leases neither last forever nor all expire, keys and tokens stay valid.

With PostgreSQL, the clock of one of two servers is wrong, and the database's clock counts. With SQLite, the
database's clock is that of its process, and all processes run on one machine: there the machine's clock is set, and
processes started later see another day than those before.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings

from conversations.models import ActiveReply, Message
from tests.api.talking import Turn, error, final, heard, hold_replies, open_stream
from tests.support.exhaustive import effort
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.processes import Product
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.processes, pytest.mark.slow]

LEASE = 6.0
DAYS = ["+1d", "-1d"]
WORSE = {True: "+1d", False: "-1d"}
"""The case of the short run, by whether the database is SQLite: there a lease lasts too long, else one ends at once."""
TURNS = 4


@pytest.fixture
def wrong_by() -> Callable[[str], dict[str, str]]:
    """Return the environment of a process whose clock is off by an offset. Its timers are not affected."""
    found = [path for path in Path("/usr/lib").glob("**/faketime/libfaketimeMT.so.1") if path.is_file()]
    if not found:
        pytest.skip("libfaketime is not on this machine")
    library = str(found[0])
    return lambda offset: {"LD_PRELOAD": library, "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@pytest.fixture(params=DAYS)
def offset(request: pytest.FixtureRequest) -> str:
    """How far the clock is off."""
    if effort(WORSE[settings.IS_SQLITE], request.param) != request.param:
        pytest.skip("in the full form")
    return str(request.param)


@pytest.fixture
def quick(offset: str, product: Product) -> Product:
    product.env |= {"REPLY_LEASE_SECONDS": str(LEASE), "REPLY_CHECKPOINT_SECONDS": "0.1", "LOG_LEVEL": "INFO"}
    return product


def elsewhere(quick: Product, there: Client) -> Client:
    """Start another server, with the right clock, and return the same user's client of it."""
    quick.server()
    quick.clients.append(Client(quick.url, there.token))
    return quick.clients[-1]


@pytest.mark.promise("P19")
def test_servers_that_disagree_about_the_day_agree_about_the_order(
    quick: Product, fake: FakeUpstream, wrong_by: Callable[[str], dict[str, str]], offset: str
) -> None:
    wrong = quick.server(**wrong_by(offset))
    there = quick.client()
    key = {"json": {"message": "Keyed", "stream": False}, "headers": {"Idempotency-Key": "a day apart"}}
    keyed = there.post("message/first", **key).json()
    chat = keyed["chat_id"]
    if settings.IS_SQLITE:
        for number in range(TURNS):
            there.ask(f"Turn {number}", chat)
        quick.kill(wrong)
    here = elsewhere(quick, there)
    if not settings.IS_SQLITE:
        for number in range(TURNS):
            (here, there)[number % 2].ask(f"Turn {number}", chat)
        assert there.post("message/first", **key).json() == keyed
    if not (settings.IS_SQLITE and offset == "-1d"):  # a day has passed there, which is how long a key lasts
        assert here.post("message/first", **key).json() == keyed
    here.ask("The last", chat)
    rows = list(Message.objects.filter(chat_id=chat, role="user").order_by("seq").values_list("content", flat=True))
    assert rows == ["Keyed", *(f"Turn {number}" for number in range(TURNS)), "The last"]
    assert here.get("chats").status_code == 200


@pytest.mark.promise("P19")
def test_a_lease_of_another_day_neither_lasts_for_ever_nor_ends_at_once(
    quick: Product, fake: FakeUpstream, wrong_by: Callable[[str], dict[str, str]], offset: str
) -> None:
    wrong = quick.server(**wrong_by(offset))
    there = quick.client()
    hold_replies(fake)
    with open_stream(there, "In the making") as (turn, events):
        said = heard(events)
        wait_for(lambda: ActiveReply.objects.get(message_id=turn.reply).text == said, "its checkpoint")
        if not settings.IS_SQLITE:
            here = elsewhere(quick, there)
            _outlives_its_lease(here, turn)
        quick.kill(wrong)
    fake.release()
    if settings.IS_SQLITE:
        here = elsewhere(quick, there)
    wait_for(lambda: not ActiveReply.objects.exists(), "the end of the abandoned reply", timeout=6 * LEASE)
    left = final(here, turn)
    assert (left["status"], left["content"], left["error"]["code"]) == ("incomplete", said, "interrupted")
    assert here.ask("And now?", turn.chat)["message"]["status"] == "complete"


def _outlives_its_lease(client: Client, turn: Turn) -> None:
    """While its server lives, no other process finishes the reply, even for longer than one lease."""
    first = ActiveReply.objects.get(message_id=turn.reply).lease_expires_at

    def renewed_twice() -> bool:
        error(client.post("message", json={"message": "x", "chat_id": turn.chat}), 409, "chat_busy")
        return (ActiveReply.objects.get(message_id=turn.reply).lease_expires_at - first).total_seconds() > LEASE

    wait_for(renewed_twice, "a lease that was renewed", timeout=6 * LEASE)
