"""Reads many rows with few of them in memory, by their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet


def in_chunks(rows: QuerySet[Any, Any], size: int) -> Iterator[Any]:
    """Yield `rows` in their order, read `size` at a time. Rows that are deleted in the meantime are left out.

    Not by `iterator`, because a server-side cursor does not survive a pooler that gives each transaction another
    connection, such as PgBouncer.
    """
    keys = list(rows.values_list("pk", flat=True))
    for start in range(0, len(keys), size):
        yield from rows.filter(pk__in=keys[start : start + size])
