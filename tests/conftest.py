"""Fixtures shared by many tests. Nothing here connects to anything but 127.0.0.1."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.test import override_settings
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from knox.models import AuthToken

from chatmemory.llm.openai import transport
from conversations.replies import generation
from tests.support import costs
from tests.support import database as emptying
from tests.support.exhaustive import THOROUGH
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer

# Deadlines are off: the duration of an example depends on the machine. `make test` runs the same few examples each
# time, so that a result depends only on the change; `make test-all` tries more, and new ones.
hypothesis_settings.register_profile(
    "quick",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=5,
    derandomize=True,
    database=None,
)
hypothesis_settings.register_profile(
    "thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=20
)
hypothesis_settings.load_profile("thorough" if THOROUGH else "quick")
emptying.instead_of_flush()
emptying.in_shared_memory()
costs.read_one_certificate()
costs.share_tls_contexts()
costs.list_static_files_once()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    with costs.without_garbage_collection():
        return (yield)


@connection_created.connect
def without_fsync(sender: object, connection: BaseDatabaseWrapper, **_: object) -> None:
    """Turn off fsync: no test cuts this machine's power, so its own database need not wait for the disk."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA synchronous=OFF")


@pytest.fixture(autouse=True, scope="session")
def cheap_passwords() -> Iterator[None]:
    """Use a cheap password hash. Everywhere else, passwords cost as much as they should."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """pytest-django's test database, which can be dropped at the end whatever is still connected to it."""
    yield
    with django_db_blocker.unblock():
        emptying.end_sessions()


@pytest.fixture(scope="session")
def live_server_process(django_db_setup: None, django_db_blocker: Any) -> Iterator[LiveServer]:
    """One server for the whole run, on the test database. It keeps answering between tests."""
    with django_db_blocker.unblock(), LiveServer() as server:
        # Tests leave unfinished replies on purpose, and choose themselves who finishes them.
        server.run(generation.stop_watching())
        yield server


@pytest.fixture
def live(live_server_process: LiveServer, transactional_db: None) -> Iterator[LiveServer]:
    """The server, for one test; the database is emptied afterwards."""
    yield live_server_process
    live_server_process.run(transport.aclose())


@pytest.fixture
def upstream(settings: Any) -> Iterator[FakeUpstream]:
    """A fake OpenAI server, and the settings that make chatmemory use it."""
    with FakeUpstream() as fake:
        settings.OPENAI_API_KEY = "sk-test-canary"
        settings.OPENAI_BASE_URL = fake.base_url
        yield fake


@pytest.fixture
def user_client(live: LiveServer) -> Iterator[Callable[[str], Client]]:
    """Return a function that makes a user with a token, and a client for that user."""
    made: list[Client] = []

    def make(name: str = "alice") -> Client:
        user, _ = User.objects.get_or_create(username=name)
        made.append(Client(live.url, AuthToken.objects.create(user)[1]))
        return made[-1]

    yield make
    for client in made:
        client.http.close()


@pytest.fixture
def alice(user_client: Callable[[str], Client]) -> Client:
    return user_client("alice")
