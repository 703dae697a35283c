"""Which statements would stop others from using a large table, seen as PostgreSQL runs them.

`watching` looks after each statement of a connection at the locks that its transaction holds, and at what the
transaction has done to tables that were there before:

- a table is read or written under a lock that keeps others from writing: they wait as long as it is large
- a table is rewritten, or a transaction changes more than `MANY` rows
- a table, a column or its type is gone, of which the servers of the version before know
- an index is made under a lock, which is the same as reading the table

What is done to tables that the migrations make themselves is free. As a program (`python -m
tests.support.migration_locks`), it migrates the database of DATABASE_URL and prints what it found, a line each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

MANY = 5_000
"""Rows that one transaction may change. Others wait for it only where they write the same rows."""
WAITING = "('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')"
"""The locks of a table that keep others from writing."""

_TABLES = """
SELECT c.oid, c.relname::text, pg_relation_filenode(c.oid),
    ARRAY(SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
        WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname = 'public'
"""
_DONE = f"""
SELECT relid, seq_scan + coalesce(idx_scan, 0), n_tup_ins + n_tup_upd + n_tup_del, EXISTS (
    SELECT 1 FROM pg_locks WHERE relation = relid AND pid = pg_backend_pid() AND granted AND mode IN {WAITING})
FROM pg_stat_xact_user_tables
"""


@dataclass(frozen=True)
class Table:
    name: str
    file: int
    columns: frozenset[str]


@dataclass
class Watch:
    """What was there before, and what was found, in sentences."""

    connection: BaseDatabaseWrapper
    before: dict[int, Table] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    _begun: Any = None
    """When the present transaction began, which tells it from others."""
    _counted: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Scans and changes of each table before it: PostgreSQL counts on until it has time to report them."""

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        """Django's wrapper of a statement. Outside of a transaction, the statement gets one of its own."""
        if "CONCURRENTLY" in sql.upper() or self.connection.needs_rollback:
            return execute(sql, params, many, context)
        if not self.connection.in_atomic_block:
            with transaction.atomic(self.connection.alias):
                return self(execute, sql, params, many, context)
        ((begun,),) = self._ask("SELECT now()")
        if begun != self._begun:
            self._begun = begun
            self._counted = {oid: (scans, changes) for oid, scans, changes, _ in self._ask(_DONE)}
        result = execute(sql, params, many, context)
        self._look(sql)
        return result

    def tables(self) -> dict[int, Table]:
        return {oid: Table(name, file, frozenset(columns)) for oid, name, file, columns in self._ask(_TABLES)}

    def _look(self, sql: str) -> None:
        found = []
        now = self.tables()
        for oid, old in self.before.items():
            if oid not in now or now[oid].name != old.name:
                found.append(f"drops or renames {old.name}")
                continue
            if now[oid].file != old.file:
                found.append(f"rewrites {old.name}")
            if gone := old.columns - now[oid].columns:
                found.append(f"takes {', '.join(sorted(gone))} from {old.name}")
        for oid, scans, changes, is_locked in self._ask(_DONE):
            if oid in self.before:
                scanned, changed = self._counted.get(oid, (0, 0))
                found += self._stops(self.before[oid].name, scans - scanned, changes - changed, is_locked)
        told = " ".join(sql.split())[:150]
        self.found += [f"{one}: {told}" for one in found if not any(one in known for known in self.found)]

    def _stops(self, name: str, scans: int, changes: int, is_locked: bool) -> Iterator[str]:
        if is_locked and scans + changes:
            yield f"reads or writes {name} under a lock"
        if changes > MANY:
            yield f"changes {changes} rows of {name} in one transaction"

    def _ask(self, question: str) -> list[Any]:
        """Ask past Django's wrappers, of which this is one."""
        with self.connection.connection.cursor() as cursor:
            return list(cursor.execute(question).fetchall())


@contextmanager
def watching(connection: BaseDatabaseWrapper) -> Iterator[Watch]:
    connection.ensure_connection()
    watch = Watch(connection)
    watch.before = watch.tables()
    with connection.execute_wrapper(watch):
        yield watch


if __name__ == "__main__":
    import django
    from django.core.management import call_command
    from django.db import connection as default

    django.setup()
    with watching(default) as watch:
        call_command("migrate", verbosity=0)
    print("\n".join(watch.found))
