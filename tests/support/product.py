"""Fixtures: the product as processes. At the end of a test, all it started ends, and the invariants are checked."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes.upstream import FakeUpstream
from tests.support.invariants import check_all
from tests.support.processes import Product, here


@pytest.fixture
def fake() -> Iterator[FakeUpstream]:
    """A fake upstream; a request in which it found a fault fails the test."""
    with FakeUpstream() as running:
        yield running
        assert running.faults == []


LIMITS = (
    *("MEMORY_PROMPT_TOKEN_BUDGET", "MEMORY_CHUNK_SUMMARIZE_THRESHOLD"),
    *("MEMORY_SUMMARY_TOKEN_CAP", "MEMORY_FOLD_BITE_TOKENS"),
)
"""Settings that a test may give its processes, and that the invariants depend on."""


def set_limits(settings: Any, environment: Mapping[str, str]) -> None:
    """Set in this process the limits that other processes have in their environment."""
    for name in LIMITS:
        if name in environment:
            setattr(settings, name, int(environment[name]))


@pytest.fixture
def offline_product(transactional_db: None, settings: Any, tmp_path: Path) -> Iterator[Product]:
    """The product with the built-in model, on pytest's database. The test starts the processes it needs."""
    with Product(tmp_path, here()) as product:
        yield product
    assert product.errors() == [], product.errors()
    # The invariants are checked with the numbers that the product had.
    set_limits(settings, product.env)
    check_all()


@pytest.fixture
def product(offline_product: Product, fake: FakeUpstream) -> Product:
    """The product with the fake upstream."""
    offline_product.use(fake)
    return offline_product
