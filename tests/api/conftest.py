"""Fixtures around every test over HTTP: frequent checkpoints, and a check of all chats at the end."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.contrib.auth.models import User
from openai import OpenAI

from conversations.accounts import api_tokens
from conversations.accounts.end_users import create_app
from conversations.accounts.models import App, Scope
from conversations.replies import generation
from tests.api.talking import sdk
from tests.support import owners
from tests.support.exhaustive import is_sampled
from tests.support.invariants import check_all
from tests.support.live_server import Client, LiveServer
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def check_invariants(live: LiveServer, settings: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """Make checkpoints frequent; at the end, wait for every reply, and check statements and a sample of chats."""
    settings.REPLY_CHECKPOINT_SECONDS = 0.05
    with owners.watch() as findings:
        yield
        wait_for(lambda: not generation._running)
    if is_sampled(request):
        check_all()
    assert owners.unexpected(findings) == []


@pytest.fixture
def bob(user_client: Callable[[str], Client]) -> Client:
    """Another user."""
    return user_client("bob")


@pytest.fixture
def client_of(live: LiveServer) -> Iterator[Callable[..., Client]]:
    """Return a function that makes a token of a user with these scopes, and a client with it."""
    with ExitStack() as stack:

        def make(user: User, *scopes: Scope) -> Client:
            issued = api_tokens.issue(user, None, "", [*scopes])
            assert issued is not None
            client = Client(live.url, issued[1])
            stack.enter_context(client.http)
            return client

        yield make


@pytest.fixture
def app(live: LiveServer) -> App:
    """The app `shop`, which need not name end users."""
    return create_app("shop", requires_end_user=False)


@pytest.fixture
def shop(app: App, client_of: Callable[..., Client]) -> Client:
    """A client with a token of that app, which may name end users."""
    return client_of(app.user, Scope.ACT_FOR_USERS)


@pytest.fixture
def ask(alice: Client) -> Iterator[OpenAI]:
    """OpenAI's own client, in its strict mode."""
    with sdk(alice) as made:
        yield made


@pytest.fixture
def drain(live: LiveServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes the server drain; undone when the test ends."""
    monkeypatch.setattr(generation, "_drain_task", None)

    async def start() -> None:
        generation.start_draining()

    return lambda: live.run(start())
