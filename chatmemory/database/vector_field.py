"""A column of vectors: pgvector's type on a PostgreSQL database that has the extension; elsewhere it stays empty.

The extension may be added to a database later. So after every migration, `ensure` gives the column its type if that is
possible now.
"""

import logging
from functools import cache

from django.db import connection, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from pgvector.django import VectorField as PgvectorField

logger = logging.getLogger(__name__)

TABLE, COLUMN = "memory_messageembedding", "vector"
PROGRESS = "memory_chatembeddings"


class VectorField(PgvectorField):
    """A field for lists of numbers. Vectors of one column may differ in length."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "vector" if is_pgvector() else str(models.BinaryField().db_type(connection))


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


def ensure() -> None:
    """Give the column pgvector's type if the database has it; else keep the column empty.

    Vectors in another type are deleted: they are derived from the messages, and the worker computes them again.
    """
    is_pgvector.cache_clear()
    if is_pgvector():
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {TABLE}")  # noqa: S608  # our own tables' names, here and below
        cursor.execute(f"UPDATE {PROGRESS} SET through_seq = 0 WHERE through_seq > 0")  # noqa: S608
        if connection.vendor != "postgresql":
            return
        cursor.execute("SELECT to_regtype('vector') IS NOT NULL")
        if not cursor.fetchone()[0]:
            return
        cursor.execute(f"ALTER TABLE {TABLE} ALTER COLUMN {COLUMN} TYPE vector USING NULL::vector")
    is_pgvector.cache_clear()
    logger.info("vectors can be stored now")
