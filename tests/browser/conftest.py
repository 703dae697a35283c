"""The browser, and the users who look through it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.browser.support.chromium import PATH, Chromium
from tests.browser.support.first_look import FirstLook, Person, browser, person
from tests.browser.support.first_look import running as first_look_at
from tests.support.live_server import LiveServer


@pytest.fixture(scope="session")
def chromium(live_server_process: LiveServer) -> Iterator[Chromium]:
    if find_spec("playwright") is None:
        pytest.skip("playwright is not installed: `make test-browser` brings it")
    if not PATH:
        pytest.skip("there is no Chromium on the PATH")
    with Chromium(live_server_process.url) as browser:
        yield browser


@pytest.fixture
def boss() -> User:
    return User.objects.create_superuser("boss")


@pytest.fixture
def staff(chromium: Chromium, live: LiveServer, boss: User) -> Chromium:
    """The browser of a superuser, who may see everything."""
    client = Client()
    client.force_login(boss)
    chromium.log_in(client.cookies["sessionid"].value)
    return chromium


# Walks on the server of `quickstart`: one server per module, a new person for each test.


@pytest.fixture(scope="module")
def first_look(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstLook]:
    with first_look_at(tmp_path_factory.mktemp("first")) as look:
        yield look


@pytest.fixture(scope="module")
def walking() -> Iterator[Any]:
    """Run Chromium, for `person`."""
    if find_spec("playwright") is None:
        pytest.skip("playwright is not installed: `make test-browser` brings it")
    if not PATH:
        pytest.skip("there is no Chromium on the PATH")
    with browser() as chromium:
        yield chromium


@pytest.fixture
def visitor(walking: Any, first_look: FirstLook) -> Iterator[Person]:
    with person(walking, first_look) as somebody:
        yield somebody


@pytest.fixture
def keeper(visitor: Person) -> Person:
    """A visitor who has signed in to the admin as its superuser."""
    visitor.sign_in()
    return visitor
