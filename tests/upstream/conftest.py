"""One fake upstream for all tests of the boundary, reset for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.fakes.upstream import FakeUpstream


@pytest.fixture(scope="package")
def running_fake() -> Iterator[FakeUpstream]:
    with FakeUpstream() as fake:
        yield fake


@pytest.fixture
def fake(running_fake: FakeUpstream) -> Iterator[FakeUpstream]:
    """The fake, reset; the test fails if the fake found fault with a request."""
    running_fake.reset()
    yield running_fake
    assert running_fake.faults == []
