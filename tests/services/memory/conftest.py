"""Small limits and a summarizer that keeps what it is shown, for every test of folding."""

from collections.abc import Iterator
from typing import Any

import pytest

from chatmemory.llm import registry
from tests.support import owners
from tests.support.fakes.scripted import KeepingModel
from tests.support.invariants import check_all


@pytest.fixture(autouse=True)
def small(settings: Any) -> None:
    """Limits so small that a few turns are folded: about 30 tokens a turn, three turns a batch."""
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 200
    settings.MEMORY_FOLD_BITE_TOKENS = 100
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 100_000
    settings.MEMORY_FOLD_ATTEMPTS = 5


@pytest.fixture(autouse=True)
def owned() -> Iterator[None]:
    """Check that each statement names its owner."""
    with owners.watch() as findings:
        yield
    assert owners.unexpected(findings) == []


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> KeepingModel:
    """The configured summarizer, which keeps the codes it is shown."""
    keeping = KeepingModel()
    monkeypatch.setattr(registry, "chat_model", lambda _: keeping)
    monkeypatch.setattr(registry, "is_offline", lambda: False)
    return keeping


@pytest.fixture
def roomy(settings: Any) -> None:
    """Batches of several turns, and a budget that a few batches fill."""
    settings.MEMORY_FOLD_BITE_TOKENS = 6000
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 1000


@pytest.fixture
def sound(db: None) -> Iterator[None]:
    """Check after the test that every chat is consistent."""
    yield
    check_all()
