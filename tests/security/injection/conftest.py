"""What surrounds every test here that uses chats: they are found in order when it is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conversations.replies import generation
from tests.support.invariants import check_all
from tests.support.waiting import wait_for


@pytest.fixture
def sound() -> Iterator[None]:
    """Afterwards every reply has ended, and every chat is in order."""
    yield
    wait_for(lambda: not generation._running)
    check_all()
