"""Fixtures of the process tests. When a test ends, everything it started ends, and the invariants are checked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.upstream import FakeUpstream
from tests.invariants import check_all
from tests.processes.harness import Product, here


@pytest.fixture
def fake() -> Iterator[FakeUpstream]:
    """A fake upstream; a request it found fault with fails the test."""
    with FakeUpstream() as running:
        yield running
        assert running.faults == []


@pytest.fixture
def offline_product(transactional_db: None, tmp_path: Path) -> Iterator[Product]:
    """The product with the built-in model, on pytest's database. The test starts what it needs of it."""
    with Product(tmp_path, here()) as product:
        yield product
    assert product.errors() == []
    check_all()


@pytest.fixture
def product(offline_product: Product, fake: FakeUpstream) -> Product:
    """The product with the fake upstream."""
    offline_product.use(fake)
    return offline_product
