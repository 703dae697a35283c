"""One fake upstream for all tests of the boundary, reset for each."""

from collections.abc import Iterator

import pytest

from chatmemory.llm.openai import client
from tests.support.fakes.upstream import FakeUpstream


@pytest.fixture
def _brisk_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAUSES", (0.01, 0.02))


@pytest.fixture(scope="package")
def running_fake() -> Iterator[FakeUpstream]:
    with FakeUpstream() as fake:
        yield fake


@pytest.fixture
def fake(running_fake: FakeUpstream, _brisk_retries: None) -> Iterator[FakeUpstream]:
    """The fake, reset; the test fails if the fake found fault with a request."""
    running_fake.reset()
    yield running_fake
    assert running_fake.faults == []
