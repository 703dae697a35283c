"""The browser, and the users who look through it: one server of `quickstart` per module, a new person for each test."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

from tests.browser.support.chromium import PATH
from tests.browser.support.first_look import FirstLook, Person, browser, person, running
from tests.browser.support.playground import with_model
from tests.support.fakes.upstream import FakeUpstream

# Playwright's loop runs in this thread. That is no reason for Django's ORM to refuse to work here.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeUpstream]:
    """The model's server, for modules that set `MODEL_SETTINGS`."""
    with FakeUpstream() as fake:
        yield fake


@pytest.fixture(scope="module")
def first_look(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstLook]:
    """What `quickstart` starts: with the built-in model, or with `fake` and the settings of the module."""
    env: dict[str, str] = {}
    if (own := getattr(request.module, "MODEL_SETTINGS", None)) is not None:
        env = {**with_model(request.getfixturevalue("fake")), **own}
    with running(tmp_path_factory.mktemp("first"), **env) as look:
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


@contextmanager
def checked(request: pytest.FixtureRequest, *with_whom: Any, **how: Any) -> Iterator[Person]:
    """A person with a browser of their own. At the end, nothing may have gone wrong but what the test expects."""
    with person(*with_whom, **how) as somebody:
        yield somebody
        if not getattr(request.module, "FAILS_BY_DESIGN", False):
            found = somebody.troubles()
            assert [one for one in found if not any(part in one for part in somebody.expected)] == []


@pytest.fixture
def visitor(request: pytest.FixtureRequest, walking: Any, first_look: FirstLook) -> Iterator[Person]:
    with checked(request, walking, first_look) as somebody:
        yield somebody


@pytest.fixture
def keeper(visitor: Person) -> Person:
    """A visitor who has signed in to the admin as its superuser."""
    visitor.sign_in()
    return visitor


@pytest.fixture(params=[False, True], ids=["desktop", "phone in the dark"])
def anywhere(request: pytest.FixtureRequest, walking: Any, first_look: FirstLook) -> Iterator[Person]:
    """The superuser, on a desktop and on a phone."""
    with checked(request, walking, first_look, phone=request.param, dark=request.param) as somebody:
        somebody.sign_in()
        yield somebody
