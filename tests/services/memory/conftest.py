"""Small limits and summarizers that keep what they are shown, for every test of folding."""

from collections.abc import Iterator
from typing import Any

import pytest

from conversations.models import Chat
from tests.support import owners
from tests.support.fakes.scripted import KeepingModel, TellingModel
from tests.support.folds import assert_sound, summarized_by
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
    """The configured summarizer, which keeps the codes `T1`, `T2` and so on that it is shown."""
    return summarized_by(KeepingModel(), monkeypatch)


@pytest.fixture
def telling(monkeypatch: pytest.MonkeyPatch) -> Iterator[TellingModel]:
    """A summarizer that keeps codes such as `AB-1234` in the format that the policy asks for, after a test's own lines.

    All of these must be used.
    """
    model = summarized_by(TellingModel(), monkeypatch)
    yield model
    assert model.lines == []


@pytest.fixture
def roomy(settings: Any) -> None:
    """Batches of several turns, and a budget that a few batches fill."""
    settings.MEMORY_FOLD_BITE_TOKENS = 6000
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 1000


@pytest.fixture
def sound(db: None) -> Iterator[None]:
    """Check after the test that every chat is consistent, and that no fold holds one."""
    yield
    check_all()
    for chat in Chat.objects.filter(brief__isnull=False):
        assert_sound(chat)
