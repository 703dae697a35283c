"""How much is tried: `make test` runs the first cases, `make test-exhaustive` all, and `make faults` the most."""

import os
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def effort(short: T, full: T) -> T:
    """Choose how often faults strike: `full` in `make faults` (FAULTS=full), else `short`."""
    return full if os.environ.get("FAULTS") == "full" else short


def first_of(values: Iterable[Any], number: int = 1) -> list[Any]:
    """Return cases for `parametrize`, all except the first `number` marked `exhaustive`."""
    return first_row_of(((value,) for value in values), number)


def first_row_of(rows: Iterable[tuple[Any, ...]], number: int = 1) -> list[Any]:
    """Return cases for several parameters at once, all except the first `number` marked `exhaustive`."""
    return [
        pytest.param(*row, marks=[pytest.mark.exhaustive] if at >= number else [])
        for at, row in enumerate(rows)
    ]
