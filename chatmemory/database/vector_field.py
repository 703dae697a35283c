"""A column of vectors: bytes in Python (little-endian 32-bit floats); pgvector's type in a database that has it.

After every migration, `ensure` checks whether the extension is available now, and gives the column its type. Vectors
stored before are deleted: they are derived from the messages, and the worker computes them again. Without pgvector
they are stored as bytes, which Python reads faster than an array of `real`.
"""

from __future__ import annotations

import logging
import struct
from functools import cache
from typing import Any

from django.db import connection, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger(__name__)

TABLE, COLUMN = "memory_messageembedding", "vector"
PROGRESS = "memory_chatembeddings"


class VectorField(models.BinaryField):  # type: ignore[type-arg]  # generic only in its stubs
    """A field for vectors as bytes, stored as described above. Vectors may differ in length."""

    def get_placeholder(self, value: Any, compiler: Any, connection: BaseDatabaseWrapper) -> str:
        return "%s::vector" if is_pgvector() else "%s"

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        if value is None or not is_pgvector():
            return super().get_db_prep_value(value, connection, prepared)
        return as_text(value)

    def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
        return (f"{sql}::text", params) if is_pgvector() else (sql, params)

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> bytes | None:
        if isinstance(value, str):
            numbers = [float(number) for number in value.strip("[]").split(",")]
            return struct.pack(f"<{len(numbers)}f", *numbers)
        return None if value is None else bytes(value)


def numbers_of(vector: bytes) -> tuple[float, ...]:
    """The numbers of a vector."""
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def as_text(vector: bytes) -> str:
    """A vector in pgvector's text format."""
    return str([*numbers_of(vector)])


@cache
def is_pgvector() -> bool:
    """Whether the column has pgvector's type. Looked up once per process, as only `migrate` changes it."""
    if connection.vendor != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = %s",
            [TABLE, COLUMN],
        )
        row = cursor.fetchone()
    return row is not None and row[0].split(".")[-1] == "vector"


def ensure() -> bool:
    """Give the column pgvector's type if the database has it. Return True if the type was changed."""
    is_pgvector.cache_clear()
    if connection.vendor != "postgresql" or is_pgvector():
        return False
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT to_regtype('vector') IS NOT NULL AND to_regclass(%s) IS NOT NULL", [TABLE])
        if not cursor.fetchone()[0]:
            return False
        cursor.execute(f"TRUNCATE {TABLE}")
        cursor.execute(f"ALTER TABLE {TABLE} ALTER COLUMN {COLUMN} TYPE vector USING NULL::vector")
        cursor.execute(f"UPDATE {PROGRESS} SET through_seq = 0")  # noqa: S608  # our own table's name
    is_pgvector.cache_clear()
    logger.info("vectors are pgvector's now")
    return True
