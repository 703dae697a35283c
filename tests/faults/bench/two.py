"""Two servers on one database, for a test: clients of both, and the upstream they share."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from conversations.models import ActiveReply
from tests.support.fakes.upstream import FakeUpstream
from tests.support.invariants import check_all
from tests.support.live_server import Client
from tests.support.processes import Product, here
from tests.support.waiting import wait_for


@dataclass(frozen=True)
class Two:
    """The servers and their upstream."""

    product: Product
    fake: FakeUpstream

    def clients(self, user: str = "alice") -> tuple[Client, Client]:
        """Return a client for each server, with the same token of that user."""
        there = self.product.client(user)
        here = Client(self.product.urls["server-1"], there.token)
        self.product.clients.append(here)
        return here, there


@pytest.fixture(scope="session")
def two_servers(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Product, FakeUpstream]]:
    """Run two server processes on the test database, and one upstream, for the whole run."""
    folder = tmp_path_factory.mktemp("two")
    with FakeUpstream() as fake, django_db_blocker.unblock(), Product(folder, here()) as product:
        product.use(fake)
        product.env |= {"REPLY_CHECKPOINT_SECONDS": "0.1", "LOG_LEVEL": "INFO"}
        product.server()
        product.server()
        yield product, fake


@pytest.fixture
def two(two_servers: tuple[Product, FakeUpstream], transactional_db: None) -> Iterator[Two]:
    """The two servers for one test. At its end no reply is being written, and every chat is consistent.

    The servers keep running between the tests that use them, while other tests fill and empty the database. Only what
    they log during this test is checked.
    """
    product, fake = two_servers
    before = product.errors()
    fake.reset()
    yield Two(product, fake)
    wait_for(lambda: not ActiveReply.objects.exists())
    assert fake.faults == []
    assert [error for error in product.errors() if error not in before] == []
    check_all()
