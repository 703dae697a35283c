"""Sizes of rows, computed by the database before it sends them: how many rows of a list fit into one answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from django.db.models import Func, IntegerField, JSONField, QuerySet, TextField, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

ANSWER_MAX_BYTES = 2 * 1024 * 1024
"""Maximum bytes of the rows in one answer, in UTF-8. JSON takes up to thirty times as much memory once it is parsed."""


class ByteLength(Func):
    """Bytes of a text, or of JSON as text, in UTF-8."""

    output_field = IntegerField()
    template = "OCTET_LENGTH((%(expressions)s)::text)"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="LENGTH(CAST(%(expressions)s AS BLOB))", **context)


def byte_size(rows: QuerySet[Any]) -> Combinable:
    """An expression for the bytes of all columns of unlimited length that `rows` would load."""
    names, is_deferred = rows.query.deferred_loading
    long = (
        field.name
        for field in rows.model._meta.concrete_fields
        if isinstance(field, TextField | JSONField) and (field.name in names) is not is_deferred
    )
    return reduce(add, (Coalesce(ByteLength(name), 0) for name in long), Value(0))


def json_size(value: Any) -> int:
    """The bytes of a value as compact JSON in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"))


def count_fitting(sizes: Sequence[int]) -> int:
    """How many rows of these sizes, in order, fit into one answer; at least one."""
    left = ANSWER_MAX_BYTES
    for count, size in enumerate(sizes):
        left -= size
        if left < 0:
            return max(count, 1)
    return len(sizes)
