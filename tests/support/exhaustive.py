"""Test cases: `make test` runs only the first of them, `make test-exhaustive` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_of(values: Iterable[Any], number: int = 1) -> list[Any]:
    """Return cases for `parametrize`, all except the first `number` marked `exhaustive`."""
    return first_row_of(((value,) for value in values), number)


def first_row_of(rows: Iterable[tuple[Any, ...]], number: int = 1) -> list[Any]:
    """Return cases for several parameters at once, all except the first `number` marked `exhaustive`."""
    return [
        pytest.param(*row, marks=[pytest.mark.exhaustive] if at >= number else [])
        for at, row in enumerate(rows)
    ]
