"""Fixtures of the tests that use chats: all chats are checked after each test."""

from collections.abc import Iterator

import pytest

from conversations.replies import generation
from tests.support.invariants import check_all
from tests.support.waiting import wait_for


@pytest.fixture
def sound() -> Iterator[None]:
    """Check after the test that every reply has ended and every chat is consistent."""
    yield
    wait_for(lambda: not generation._running)
    check_all()
