"""How much is tried: `make test` runs the first cases, `make test-exhaustive` all, and `make faults` the most."""

import os
import zlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
THOROUGH = bool(os.environ.get("THOROUGH"))
"""Set by `make test-all`."""


def effort(short: T, full: T) -> T:
    """Choose how often faults strike: `full` in `make faults` (FAULTS=full), else `short`."""
    return full if os.environ.get("FAULTS") == "full" else short


def is_sampled(request: pytest.FixtureRequest) -> bool:
    """Whether all invariants are checked after this test: one in eight in `make test`, each in `make test-all`."""
    return THOROUGH or zlib.crc32(request.node.nodeid.encode()) % 8 == 0


def first_of(values: Iterable[Any], number: int = 1) -> list[Any]:
    """Return cases for `parametrize`, all except the first `number` marked `exhaustive`."""
    return first_row_of(((value,) for value in values), number)


def first_of_each(values: Iterable[T], kind: Callable[[T], object]) -> list[Any]:
    """Return cases for `parametrize`: the first of each kind, and the others marked `exhaustive`."""
    kinds, cases = set[object](), []
    for value in values:
        cases += first_of([value], number=kind(value) not in kinds)
        kinds.add(kind(value))
    return cases


def first_row_of(rows: Iterable[tuple[Any, ...]], number: int = 1) -> list[Any]:
    """Return cases for several parameters at once, all except the first `number` marked `exhaustive`."""
    return [pytest.param(*row, marks=[pytest.mark.exhaustive] if at >= number else []) for at, row in enumerate(rows)]
