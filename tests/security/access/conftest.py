"""Fixtures of the access matrix: owned objects, and callers."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from conversations.accounts import api_tokens, end_users
from conversations.accounts.models import Scope
from tests.security.access.callers import APP, CSRF, END_USER, Caller, OwnedObjects, create_owned_objects
from tests.support.factories import session_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer


@pytest.fixture
def owned_objects(alice: Client, upstream: FakeUpstream, settings: Any) -> OwnedObjects:
    return create_owned_objects(User.objects.get(username="alice"), alice, settings)


@pytest.fixture
def owned(request: pytest.FixtureRequest) -> OwnedObjects:
    """The objects that the fixture of a parameter makes."""
    objects: OwnedObjects = request.getfixturevalue(request.param)
    return objects


@pytest.fixture
def calling(live: LiveServer) -> Iterator[Callable[..., Caller]]:
    made: list[httpx.Client] = []

    def call(token: str = "", session: User | None = None, csrf: bool = True, end_user: str = "") -> Caller:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"X-Chatmemory-User": end_user} if end_user else {}
        cookies = {}
        if session is not None:
            cookies = {**session_of(session), "csrftoken": CSRF}
            headers |= {"X-CSRFToken": CSRF} if csrf else {}
        made.append(httpx.Client(base_url=live.url, headers=headers, cookies=cookies, timeout=30, verify=False))
        return Caller(made[-1], session)

    yield call
    for client in made:
        client.close()


@pytest.fixture
def end_users_house(live: LiveServer, upstream: FakeUpstream, settings: Any) -> Iterator[OwnedObjects]:
    """The objects of the end user `END_USER` of `APP`."""
    app = end_users.create_app(APP, requires_end_user=False)
    issued = api_tokens.issue(app.user, None, "", [Scope.ACT_FOR_USERS])
    assert issued is not None
    client = Client(live.url, issued[1])
    client.http.headers["X-Chatmemory-User"] = END_USER
    yield create_owned_objects(end_users.create_end_user(app, END_USER).user, client, settings)
    client.http.close()
