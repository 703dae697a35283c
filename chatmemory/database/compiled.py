"""SQL that is compiled once and runs many times: selects, updates and deletions of every turn, except for recall's.

Measured: Django spends four fifths of the time for a turn's selects, and most of that for what it writes, on building
the same SQL again. Here a queryset is built once with placeholders for its values; what runs later is the SQL that the
ORM compiled, with the values in place of the placeholders. So a statement reads like any queryset and follows the
models, and a test compares its rows with the ORM's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model, QuerySet
from django.db.models.query import get_related_populators
from django.db.models.sql import DeleteQuery, UpdateQuery

M = TypeVar("M", bound=Model)
Value = UUID | int | str | datetime

_STAND_IN = 1_970_000_001
"""The first placeholder: a number that fits every column, and is a constant of none of our querysets."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A statement compiled to SQL."""

    sql: str
    constants: tuple[Any, ...]
    places: tuple[tuple[int, int, Callable[[Any], Any]], ...]
    """Which parameter takes which value, and the function that converts it for the database."""
    converted: Callable[[Iterable[Sequence[Any]]], Iterator[list[Any]]]
    """Converts rows of the database to lists of Python's values."""
    instance: Callable[[list[Any]], Any]
    """Makes a row of a select an instance of the queryset's model."""

    def params(self, values: Sequence[Value]) -> list[Any]:
        params = list(self.constants)
        for place, index, adapt in self.places:
            params[place] = adapt(values[index])
        return params


class _Statement:
    """A statement as a function of its values, compiled at its first use.

    Later values are of the same types as the first.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._kept: dict[str, _Compiled] = {}

    def _query(self, stand_ins: Sequence[Value]) -> Any:
        """The query with these values, of Django's `sql` package."""
        raise NotImplementedError

    def _run(self, values: Sequence[Value]) -> tuple[_Compiled, list[list[Any]], int]:
        """Return the statement, compiled once for each kind of database, its rows and their number."""
        connection = connections[DEFAULT_DB_ALIAS]
        compiled = self._kept.get(connection.vendor)
        if compiled is None:
            compiled = self._kept[connection.vendor] = self._compile(connection, values)
        with connection.cursor() as cursor:
            cursor.execute(compiled.sql, compiled.params(values))
            rows = cursor.fetchall() if cursor.description else []
            return compiled, list(compiled.converted(rows)), cursor.rowcount

    def _compile(self, connection: BaseDatabaseWrapper, values: Sequence[Value]) -> _Compiled:
        stand_ins = [_stand_in(value, number) for number, value in enumerate(values, start=_STAND_IN)]
        compiler = self._query(stand_ins).get_compiler(connection=connection)
        sql, params = compiler.as_sql()
        places = [
            (place, at, adapter)
            for place, param in enumerate(params)
            for at, stand_in in enumerate(stand_ins)
            if (adapter := _adapter(param, stand_in, connection)) is not None
        ]
        assert {at for _, at, _ in places} == set(range(len(stand_ins))), "a value has no place in the query"
        converters = compiler.get_converters(expression for expression, _, _ in compiler.select or ())
        return _Compiled(
            sql=sql,
            constants=tuple(params),
            places=tuple(places),
            converted=partial(compiler.apply_converters, converters=converters),
            instance=_instances(compiler),
        )


class Select(_Statement, Generic[M]):
    """A queryset of whole rows of one model, or of `values_list`, as a function of its values.

    `make` builds the queryset from them. It may only compare with them; slices and constants are fixed. Instances have
    what `select_related` and `annotate` add to them.
    """

    def __init__(self, make: Callable[..., QuerySet[M, Any]]) -> None:
        super().__init__(make)

    def all(self, *values: Value) -> list[M]:
        """Return the rows as instances."""
        compiled, rows, _ = self._run(values)
        return [compiled.instance(row) for row in rows]

    def first(self, *values: Value) -> M | None:
        """Return the first row as an instance, or None. All are fetched."""
        found = self.all(*values)
        return found[0] if found else None

    def rows(self, *values: Value) -> list[list[Any]]:
        """Return all rows, as lists of Python values."""
        return self._run(values)[1]

    def _query(self, stand_ins: Sequence[Value]) -> Any:
        return self._make(*stand_ins).query


class Write(_Statement):
    """An update or a deletion as a function of its values. No signal is sent, and nothing cascades.

    `make` returns the rows as a queryset, and their new values by column; none to delete them.
    """

    def run(self, *values: Value) -> int:
        """Run the statement; return the number of rows that it changed."""
        return self._run(values)[2]

    def _query(self, stand_ins: Sequence[Value]) -> Any:
        rows, changes = self._make(*stand_ins)
        if not changes:
            return rows.query.chain(DeleteQuery)
        update = rows.query.chain(UpdateQuery)
        update.add_update_values(changes)
        return update


def _instances(compiler: Any) -> Callable[[list[Any]], Any]:
    """Return a function that makes instances of rows as Django's own `ModelIterable` does."""
    info, select, annotations = compiler.klass_info, compiler.select, compiler.annotation_col_map
    if not select:  # a write returns no rows
        return list
    start, end = info["select_fields"][0], info["select_fields"][-1] + 1
    names = [column.target.attname for column, _, _ in select[start:end]]
    related = get_related_populators(info, select, DEFAULT_DB_ALIAS)  # type: ignore[call-arg]  # typed for Django 6

    def instance(row: list[Any]) -> Any:
        result = info["model"].from_db(DEFAULT_DB_ALIAS, names, row[start:end])
        for one in related:
            one.populate(row, result)
        for name, place in annotations.items():
            setattr(result, name, row[place])
        return result

    return instance


def _stand_in(value: Value, number: int) -> Value:
    """Another value of the same type."""
    if isinstance(value, UUID):
        return UUID(int=number)
    if isinstance(value, datetime):
        return datetime.fromtimestamp(number, UTC)
    return str(number) if isinstance(value, str) else number


def _adapter(param: Any, stand_in: Value, connection: BaseDatabaseWrapper) -> Callable[[Any], Any] | None:
    """The function that converts a value as `stand_in` was converted to `param`; None if that is something else."""
    adapt: Callable[[Any], Any] = type(param)
    if isinstance(stand_in, UUID):
        adapt = attrgetter("hex") if isinstance(param, str) else lambda value: value
    elif isinstance(stand_in, datetime):
        adapt = connection.ops.adapt_datetimefield_value
    elif param != stand_in:
        return None
    return adapt if param == adapt(stand_in) else None
