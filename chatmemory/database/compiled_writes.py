"""Inserts, updates and deletes of single rows that are compiled once: what every turn writes.

As with selects (`compiled`), Django spends most of the time for a turn's writes on building the same SQL again, and
on looking for signals and cascades that do not exist. Fields adapt their values as in `Model.save`, so rows equal
those of the ORM; a test compares them. No signal is sent; code with receivers to call must call them itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, CharField, Expression, Field, IntegerField, Model, TextField
from django.db.models.sql import InsertQuery

from chatmemory.database import statements

M = TypeVar("M", bound=Model)

_COMPILED = "_prepared_writes"
_PLAIN = ((CharField, str), (TextField, str), (IntegerField, int), (BooleanField, bool))
"""Values of these types are passed to the driver unchanged, as their fields would do."""


class _Write(Generic[M]):
    """A statement about rows of one model, compiled at its first use on each connection."""

    def __init__(self, model: type[M], fields: Sequence[str]) -> None:
        self._model = model
        # A name may be a field's (`chat`) or its column's (`chat_id`).
        by_name = {name: f for f in model._meta.concrete_fields for name in (f.name, f.attname)}
        self._fields: list[tuple[Field[Any, Any], type | None]] = [
            (field, _plain(field)) for field in (by_name[name] for name in fields)
        ]

    def _compile(self, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        """Return the SQL, and the parameters that follow those of the fields."""
        raise NotImplementedError

    def _execute(self, values: Sequence[Any]) -> int:
        """Run the statement with a value for each field. Return how many rows it wrote."""
        connection = connections[DEFAULT_DB_ALIAS]
        kept: dict[_Write[Any], tuple[str, tuple[Any, ...]]] = connection.__dict__.setdefault(_COMPILED, {})
        compiled = kept.get(self)
        if compiled is None:
            compiled = kept[self] = self._compile(connection)
        sql, constants = compiled
        params: list[Any] = [
            value if value is None or type(value) is plain else field.get_db_prep_save(value, connection)
            for value, (field, plain) in zip(values, self._fields, strict=True)
        ]
        return statements.execute(connection, sql, (*params, *constants))

    def _table(self, connection: BaseDatabaseWrapper) -> str:
        return connection.ops.quote_name(self._model._meta.db_table)

    def _columns(self, connection: BaseDatabaseWrapper) -> list[str]:
        return [connection.ops.quote_name(str(field.column)) for field, _ in self._fields]


class Insert(_Write[M]):
    """INSERT of a new instance, as `save(force_insert=True)`. The database computes the columns in `expressions`.

    Only for models whose key is not a serial number.
    """

    def __init__(self, model: type[M], **expressions: Expression) -> None:
        super().__init__(
            model, [field.name for field in model._meta.concrete_fields if field.name not in expressions]
        )
        self._expressions = expressions

    def save(self, instance: M) -> M:
        self._execute([field.pre_save(instance, add=True) for field, _ in self._fields])
        instance._state.adding, instance._state.db = False, DEFAULT_DB_ALIAS
        return instance

    def _compile(self, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        columns, constants = self._columns(connection), list[Any]()
        places = ["%s"] * len(columns)
        compiler = InsertQuery(self._model).get_compiler(connection=connection)
        fields = {field.name: field for field in self._model._meta.concrete_fields}
        for name, expression in self._expressions.items():
            field = fields[name]
            sql, params = compiler.compile(compiler.prepare_value(field, expression))
            columns.append(connection.ops.quote_name(str(field.column)))
            places.append(sql)
            constants += params
        sql = f"INSERT INTO {self._table(connection)} ({', '.join(columns)}) VALUES ({', '.join(places)})"  # noqa: S608  # names of our own
        return sql, tuple(constants)


class Update(_Write[M]):
    """UPDATE of some fields of one row, by its primary key."""

    def __init__(self, model: type[M], *fields: str) -> None:
        super().__init__(model, (*fields, model._meta.pk.name))

    def save(self, instance: M) -> None:
        """Save the fields, as `save(update_fields=…)`, but without an error if the row does not exist."""
        *fields, _ = self._fields
        self._execute([*(field.pre_save(instance, add=False) for field, _ in fields), instance.pk])

    def set(self, pk: Any, *values: Any) -> None:
        """Set the fields to `values`, in their order."""
        self._execute([*values, pk])

    def _compile(self, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        *columns, key = (f"{column} = %s" for column in self._columns(connection))
        return f"UPDATE {self._table(connection)} SET {', '.join(columns)} WHERE {key}", ()  # noqa: S608  # as above


class Delete(_Write[M]):
    """DELETE of the rows in which some fields have given values. No other row may refer to them."""

    def __init__(self, model: type[M], *fields: str) -> None:
        super().__init__(model, fields)

    def where(self, *values: Any) -> int:
        """Delete the rows whose fields have `values`, in their order. Return how many there were."""
        return self._execute(values)

    def _compile(self, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        conditions = " AND ".join(f"{column} = %s" for column in self._columns(connection))
        return f"DELETE FROM {self._table(connection)} WHERE {conditions}", ()  # noqa: S608  # as above


def _plain(field: Field[Any, Any]) -> type | None:
    return next((plain for kind, plain in _PLAIN if isinstance(field, kind)), None)
