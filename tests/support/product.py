"""Fixtures: the product as processes. At the end of a test, all it started ends, and the invariants are checked."""

from collections.abc import Iterator
from dataclasses import replace
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


LIMITS = {
    "MEMORY_PROMPT_TOKEN_BUDGET": "prompt_budget",
    "MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "threshold",
    "MEMORY_SUMMARY_TOKEN_CAP": "summary_cap",
    "MEMORY_FOLD_BITE_TOKENS": "bite_tokens",
}
"""Settings that a test may give its processes, and the field of `MEMORY_LIMITS` of each."""


@pytest.fixture
def offline_product(transactional_db: None, settings: Any, tmp_path: Path) -> Iterator[Product]:
    """The product with the built-in model, on pytest's database. The test starts the processes it needs."""
    with Product(tmp_path, here()) as product:
        yield product
    assert product.errors() == [], product.errors()
    # The invariants are checked with the numbers that the product had.
    given = {field: int(product.env[name]) for name, field in LIMITS.items() if name in product.env}
    settings.MEMORY_LIMITS = replace(settings.MEMORY_LIMITS, **given)
    check_all()


@pytest.fixture
def product(offline_product: Product, fake: FakeUpstream) -> Product:
    """The product with the fake upstream."""
    offline_product.use(fake)
    return offline_product
