"""Reading many rows with few of them in memory: how many fit into one answer, or are read at once."""

import json
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any

from django.db.models import Func, IntegerField, JSONField, QuerySet, TextField, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

ANSWER_MAX_BYTES = 2 * 1024 * 1024
"""Maximum bytes of the rows in one answer, in UTF-8. JSON takes up to thirty times as much memory once it is parsed."""
CHUNK_MAX_BYTES = 256 * 1024
"""Maximum bytes of rows that are read at once, unless one row alone has more."""
CHUNK_MAX_ROWS = 100


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


def count_fitting(sizes: Sequence[int], max_bytes: int | None = None) -> int:
    """How many rows of these sizes, in order, fit into `max_bytes`, else into one answer; at least one."""
    left = ANSWER_MAX_BYTES if max_bytes is None else max_bytes
    for count, size in enumerate(sizes):
        left -= size
        if left < 0:
            return max(count, 1)
    return len(sizes)


def in_chunks(rows: QuerySet[Any, Any]) -> Iterator[Any]:
    """Yield `rows` in their order, few of them in memory. Rows that are deleted in the meantime are left out.

    Not by `iterator`, because a server-side cursor does not survive a pooler that gives each transaction another
    connection, such as PgBouncer.
    """
    sizes = list(rows.values_list("pk", byte_size(rows)))
    while sizes:
        count = count_fitting([size for _, size in sizes[:CHUNK_MAX_ROWS]], CHUNK_MAX_BYTES)
        yield from rows.filter(pk__in=[key for key, _ in sizes[:count]])
        del sizes[:count]
