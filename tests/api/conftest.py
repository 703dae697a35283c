"""What surrounds every test over HTTP: a quick tick, and a look at all chats when the test is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conversations.replies import generation
from tests.support.invariants import check_all
from tests.support.live_server import Client, LiveServer
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def house(live: LiveServer, settings: Any) -> Iterator[None]:
    """Checkpoints come quickly; afterwards every reply ends, and every chat is found in order."""
    settings.REPLY_CHECKPOINT_SECONDS = 0.05
    yield
    wait_for(lambda: not generation._running)
    check_all()


@pytest.fixture
def bob(user_client: Callable[[str], Client]) -> Client:
    """Somebody else."""
    return user_client("bob")
