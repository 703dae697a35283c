"""Execute statements without Django's cursors, which take three times as long as SQLite itself.

This was measured with short statements. If queries are logged or wrapped, as in tests, Django's cursors are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.base import FORMAT_QMARK_REGEX


def fetch(connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> list[Any]:
    """Return the rows of a select."""
    cursor = executed(connection, sql, params)
    with connection.wrap_database_errors:
        rows: list[Any] = cursor.fetchall()
    return rows


def execute(connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> int:
    """Execute a statement that returns no rows. Return how many rows it wrote."""
    return int(executed(connection, sql, params).rowcount)


def executed(connection: BaseDatabaseWrapper, sql: str, params: Sequence[Any]) -> Any:
    """Execute a statement and return its cursor, Django's or the driver's."""
    if connection.queries_logged or connection.execute_wrappers:
        cursor = connection.cursor()
        cursor.execute(sql, params)
        return cursor
    connection.ensure_connection()
    connection.validate_no_broken_transaction()
    with connection.wrap_database_errors:
        own = connection.connection.cursor()
        own.execute(_qmarks(sql) if connection.vendor == "sqlite" else sql, params)
    return own


@lru_cache(maxsize=1000)
def _qmarks(sql: str) -> str:
    """The statement with SQLite's placeholders, cached because Django converts them each time."""
    return FORMAT_QMARK_REGEX.sub("?", sql).replace("%%", "%")
