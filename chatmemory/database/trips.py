"""Transactions that go to PostgreSQL and back as seldom as they can.

There every statement is a trip: its thread waits for the answer, and then for the interpreter. But few statements of a
turn need their answer at once. So within `transaction` a write waits for the next statement that does, and both go as
one query: `BEGIN` along with the first, `COMMIT` with the last. What is sure to be asked for can be read ahead.

Nothing else changes: statements run in their order, those of the ORM, too; an error comes with the statement that took
the failed one along, at the latest when the transaction ends. SQLite has no trips: there each statement runs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from chatmemory.database import statements

_OPEN = "_next_trip"


@contextmanager
def in_few_trips() -> Iterator[None]:
    """A transaction, as `atomic`: the outermost one, or a part of another."""
    connection = connections[DEFAULT_DB_ALIAS]
    outer = next_trip(connection)
    if connection.vendor != "postgresql" or outer is not None:
        if outer is not None:
            outer.forget()  # what was read ahead was meant for who comes after this
        with transaction.atomic():
            yield
        return
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        trip = NextTrip(connection)
        connection.__dict__[_OPEN] = trip
        try:
            if is_outermost:
                # Else the driver would send its BEGIN alone.
                connection.connection.autocommit = True
                trip.add("BEGIN")
            with connection.execute_wrapper(trip):
                yield
                trip.end(commits=is_outermost)
        finally:
            del connection.__dict__[_OPEN]


def next_trip(connection: BaseDatabaseWrapper) -> NextTrip | None:
    """The statements that wait in the connection's transaction; None where none would."""
    return connection.__dict__.get(_OPEN)


def write(sql: str, params: Sequence[Any], *, changes: type[Model] | None = None) -> None:
    """Run a statement of which nobody has to know how many rows it wrote. It `changes` rows that may have been read."""
    connection = connections[DEFAULT_DB_ALIAS]
    if (trip := next_trip(connection)) is None:
        statements.execute(connection, sql, params)
    else:
        if changes is not None:
            trip.forget(changes)
        trip.add(sql, params)


def count(sql: str, params: Sequence[Any], *, changes: type[Model]) -> int:
    """The same at once; how many rows it wrote."""
    connection = connections[DEFAULT_DB_ALIAS]
    if (trip := next_trip(connection)) is not None:
        trip.forget(changes)
        return trip.run(sql, params)
    return statements.execute(connection, sql, params)


@dataclass(slots=True)
class _Ahead:
    """A select that nobody has asked for yet, and what it gave."""

    model: type[Model]
    rows: list[Any] | None = None


class NextTrip:
    """The statements that go along with the next one, in a transaction on PostgreSQL.

    As one query of the simple protocol: for five statements the driver takes as long as for one; as a pipeline, seven
    times as long (measured).
    """

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self._merge: Callable[..., str] = connection.cursor().cursor.mogrify
        self._statements: list[tuple[str, _Ahead | None]] = []
        self._ahead: dict[Hashable, _Ahead] = {}
        self._is_ours = False
        """What is executed now comes from here."""

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        """Take along what waits: Django calls this for whatever is to be executed."""
        if not self._is_ours and not sql.lstrip("( ").startswith(_CHANGES_NOTHING):
            self.forget()
        cursor = context["cursor"].cursor
        if self._statements and (many or getattr(cursor, "name", None)):
            self.flush()
        if not self._statements:
            return execute(sql, params, many, context)
        before, self._statements = self._statements, []
        joined = "; ".join([*(text for text, _ in before), self._text(sql, params)])
        result = execute(joined, None, False, context)
        for _, ahead in before:
            if ahead is not None:
                ahead.rows = cursor.fetchall()
            cursor.nextset()
        return result

    def add(self, sql: str, params: Sequence[Any] | None = None) -> None:
        """Let a statement wait. What is wrong with its values is said at once."""
        self._statements.append((self._text(sql, params), None))

    def read_ahead(self, key: Hashable, model: type[Model], sql: str, params: Sequence[Any]) -> None:
        """Let a select wait, of which `taken` will ask for the rows."""
        self._ahead[key] = ahead = _Ahead(model)
        self._statements.append((self._text(sql, params), ahead))

    def taken(self, key: Hashable) -> list[Any] | None:
        """The rows of the select of that key, once; None where none was read ahead, or they may have changed since."""
        ahead = self._ahead.pop(key, None)
        if ahead is not None and ahead.rows is None:
            self.flush()
        return None if ahead is None else ahead.rows

    def forget(self, model: type[Model] | None = None) -> None:
        """Rows of `model` change, or of any: what was read ahead of them will be read again."""
        kept = {} if model is None else {k: one for k, one in self._ahead.items() if one.model is not model}
        self._ahead = kept

    def flush(self) -> None:
        """Execute what waits."""
        *self._statements, (last, ahead) = self._statements
        self.run(last, None, ahead)

    def run(self, sql: str, params: Sequence[Any] | None, ahead: _Ahead | None = None) -> int:
        """Execute a statement, and before it what waits; how many rows it wrote."""
        self._is_ours = True
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql, params)
                if ahead is not None:
                    ahead.rows = cursor.fetchall()
                return int(cursor.rowcount)
        finally:
            self._is_ours = False

    def end(self, *, commits: bool) -> None:
        """Execute what still waits, and with `commits` end the transaction along with it."""
        if self._connection.needs_rollback:
            return
        if commits:
            self.add("COMMIT")
        if self._statements:
            self.flush()

    def _text(self, sql: str, params: Sequence[Any] | None) -> str:
        if params is None:
            return sql
        with self._connection.wrap_database_errors:
            return self._merge(sql, params)


_CHANGES_NOTHING = ("SELECT", "SAVEPOINT", "RELEASE")
