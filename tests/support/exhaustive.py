"""Test cases: `make test` runs only the first of them, `make test-exhaustive` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_of(values: Iterable[Any]) -> list[Any]:
    """Return cases for `parametrize`, all except the first marked `exhaustive`."""
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.exhaustive) for value in others)]


def first_row_of(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return cases for several parameters at once, all except the first marked `exhaustive`."""
    first, *others = rows
    return [first, *(pytest.param(*row, marks=pytest.mark.exhaustive) for row in others)]
