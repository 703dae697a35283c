"""What `make test` tries once and `make test-exhaustive` in every way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_of(values: Iterable[Any]) -> list[Any]:
    """Cases for `parametrize`: all but the first are marked `exhaustive`."""
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.exhaustive) for value in others)]


def first_row_of(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The same for several parameters at once."""
    first, *others = rows
    return [first, *(pytest.param(*row, marks=pytest.mark.exhaustive) for row in others)]
