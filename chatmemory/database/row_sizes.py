"""What rows weigh, told by the database before it sends them: how many of a list fit into one answer."""

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
"""Of rows in one answer, in UTF-8. JSON takes up to thirty times as much once it is read."""


class ByteLength(Func):
    """Bytes of a text, or of JSON as text, in UTF-8."""

    output_field = IntegerField()
    template = "OCTET_LENGTH((%(expressions)s)::text)"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="LENGTH(CAST(%(expressions)s AS BLOB))", **context)


def weight(rows: QuerySet[Any]) -> Combinable:
    """Bytes of all the columns without a limit of their own that `rows` would load."""
    names, is_deferred = rows.query.deferred_loading
    long = (
        field.name
        for field in rows.model._meta.concrete_fields
        if isinstance(field, TextField | JSONField) and (field.name in names) is not is_deferred
    )
    return reduce(add, (Coalesce(ByteLength(name), 0) for name in long), Value(0))


def json_size(value: Any) -> int:
    """Bytes of a value as JSON in UTF-8, without needless blanks."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"))


def fitting(sizes: Sequence[int]) -> int:
    """How many rows of these sizes, in order, go into one answer. The first always does."""
    left = ANSWER_MAX_BYTES
    for count, size in enumerate(sizes):
        left -= size
        if left < 0:
            return max(count, 1)
    return len(sizes)
