"""The browser, and who looks through it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.browser.chromium import PATH, Chromium
from tests.live import LiveServer


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
    """The browser of a superuser: who sees most."""
    client = Client()
    client.force_login(boss)
    chromium.log_in(client.cookies["sessionid"].value)
    return chromium
