"""Fixtures around every test over HTTP: frequent checkpoints, and a check of all chats at the end."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from openai import OpenAI

from conversations.accounts import api_tokens
from conversations.accounts.end_users import create_app
from conversations.accounts.models import Scope
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
def app_client(live: LiveServer) -> Iterator[Callable[..., Client]]:
    """Return a function that makes an app, and a client with a token that acts for its end users."""
    with ExitStack() as stack:

        def make(name: str = "shop", **fields: Any) -> Client:
            issued = api_tokens.issue(create_app(name, **fields).user, None, scopes=[Scope.ACT_FOR_USERS])
            assert issued is not None
            client = Client(live.url, issued[1])
            stack.callback(client.http.close)
            return client

        yield make


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
