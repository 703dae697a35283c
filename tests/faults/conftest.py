"""Fixtures of the fault tests: the bench, the product as processes, a server in this process; with final checks."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings

from conversations.replies import generation
from tests.faults.bench.bench import Bench
from tests.faults.bench.pgbouncer import as_asked
from tests.faults.bench.postgres import NoPostgres, PrivatePostgres, private_postgres
from tests.faults.bench.two import two, two_servers
from tests.support.fakes.upstream import FakeUpstream
from tests.support.invariants import check_all
from tests.support.live_server import LiveServer
from tests.support.product import fake, offline_product, product
from tests.support.waiting import wait_for

__all__ = ["check_invariants", "fake", "offline_product", "product", "two", "two_servers"]


@pytest.fixture
def check_invariants(live: LiveServer, settings: Any) -> Iterator[None]:
    """Frequent checkpoints; at the end every reply is over, and every chat is consistent."""
    settings.REPLY_CHECKPOINT_SECONDS = 0.05
    yield
    wait_for(lambda: not generation._running)
    check_all()


@pytest.fixture(scope="session")
def private_server() -> Iterator[PrivatePostgres]:
    """A PostgreSQL that may be killed."""
    try:
        with private_postgres() as server:
            yield server
    except NoPostgres as exc:
        pytest.skip(str(exc))


@pytest.fixture(scope="session")
def private_url(private_server: PrivatePostgres) -> Iterator[str]:
    """Its URL, through PgBouncer if all of this run goes through it."""
    with as_asked(private_server.url) as url:
        yield url


@pytest.fixture(scope="session")
def running_bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The bench, on the kind of database that this run tests."""
    folder = tmp_path_factory.mktemp("bench")
    is_sqlite = settings.IS_SQLITE
    url = f"sqlite:///{folder / 'bench.sqlite3'}" if is_sqlite else request.getfixturevalue("private_url")
    with FakeUpstream() as fake:
        made = Bench(folder, url, fake)
        with made:
            made.manage("migrate")
            made.begin()
            yield made


@pytest.fixture
def bench(running_bench: Bench) -> Bench:
    """The bench with all processes running, as the case before left it. Each case uses its own users and chats."""
    running_bench.fake.clear()
    running_bench.wait_until_up()
    return running_bench
