"""Transactions with as few round trips to PostgreSQL as possible.

Every statement is a round trip: its thread waits for the answer, and then for the interpreter. But few statements of
a turn need their answer at once. So within `batched_transaction`, a write waits for the next statement that needs its
answer, and both are sent as one query: `BEGIN` with the first, `COMMIT` with the last. A select that will be needed
later can be read ahead.

Nothing else changes. Statements run in their order, including those of the ORM; an error is raised by the statement
that was sent along with the failed one, at the latest when the transaction ends. SQLite has no round trips: there,
each statement runs at once.
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

_OPEN = "_statement_queue"


@contextmanager
def batched_transaction() -> Iterator[None]:
    """Run a transaction like `atomic`, either the outermost one or a part of another."""
    connection = connections[DEFAULT_DB_ALIAS]
    outer = statement_queue(connection)
    if connection.vendor != "postgresql" or outer is not None:
        if outer is not None:
            outer.forget()  # rows that were read ahead are for statements after this block
        with transaction.atomic():
            yield
        return
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        queue = StatementQueue(connection)
        connection.__dict__[_OPEN] = queue
        try:
            if is_outermost:
                # Otherwise the driver would send BEGIN as a query of its own.
                connection.connection.autocommit = True
                queue.add("BEGIN")
            with connection.execute_wrapper(queue):
                yield
                queue.end(commits=is_outermost)
        finally:
            del connection.__dict__[_OPEN]


def statement_queue(connection: BaseDatabaseWrapper) -> StatementQueue | None:
    """The queue of statements in the connection's transaction; None if statements do not wait."""
    return connection.__dict__.get(_OPEN)


def write(sql: str, params: Sequence[Any], *, changes: type[Model] | None = None) -> None:
    """Run a statement whose row count is not needed. Discard rows of the model `changes` that were read ahead."""
    connection = connections[DEFAULT_DB_ALIAS]
    if (queue := statement_queue(connection)) is None:
        statements.execute(connection, sql, params)
    else:
        if changes is not None:
            queue.forget(changes)
        queue.add(sql, params)


def count(sql: str, params: Sequence[Any], *, changes: type[Model]) -> int:
    """Run a statement at once and return how many rows it wrote. Discard rows of `changes` that were read ahead."""
    connection = connections[DEFAULT_DB_ALIAS]
    if (queue := statement_queue(connection)) is not None:
        queue.forget(changes)
        return queue.run(sql, params)
    return statements.execute(connection, sql, params)


@dataclass(slots=True)
class _Ahead:
    """A select that was read ahead, and its rows once it has run."""

    model: type[Model]
    rows: list[Any] | None = None


class StatementQueue:
    """The queue of statements that are sent with the next one, in a transaction on PostgreSQL.

    They are sent as one query of the simple protocol: five statements take the driver as long as one; as a pipeline,
    seven times as long (measured).
    """

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self._merge: Callable[..., str] = connection.cursor().cursor.mogrify
        self._statements: list[tuple[str, _Ahead | None]] = []
        self._ahead: dict[Hashable, _Ahead] = {}
        self._is_ours = False
        """Whether the statement that is being executed comes from this object."""

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        """Send the waiting statements along; Django calls this for every statement that it executes."""
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
        """Queue a statement. Bad values raise at once."""
        self._statements.append((self._text(sql, params), None))

    def read_ahead(self, key: Hashable, model: type[Model], sql: str, params: Sequence[Any]) -> None:
        """Queue a select whose rows `take_read_ahead` will return."""
        self._ahead[key] = ahead = _Ahead(model)
        self._statements.append((self._text(sql, params), ahead))

    def take_read_ahead(self, key: Hashable) -> list[Any] | None:
        """Return the rows of the select with that key, once; None if not read ahead, or possibly changed since."""
        ahead = self._ahead.pop(key, None)
        if ahead is not None and ahead.rows is None:
            self.flush()
        return None if ahead is None else ahead.rows

    def forget(self, model: type[Model] | None = None) -> None:
        """Discard rows of `model` (None: of all models) that were read ahead, because they are about to change."""
        kept = {} if model is None else {k: one for k, one in self._ahead.items() if one.model is not model}
        self._ahead = kept

    def flush(self) -> None:
        """Execute the waiting statements."""
        *self._statements, (last, ahead) = self._statements
        self.run(last, None, ahead)

    def run(self, sql: str, params: Sequence[Any] | None, ahead: _Ahead | None = None) -> int:
        """Execute a statement after those that wait. Return how many rows it wrote."""
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
        """Execute the waiting statements, and COMMIT with them if `commits`."""
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
