"""Columns and keys of owners on tables in use: who is in the way is not harmed, and what is interrupted is repeated."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import pytest
from django.db import connection, transaction

from chatmemory.database import owner_column
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite keeps its keys, and has one writer"),
]

KEYS = {
    ("parents", "PRIMARY KEY (id, owner_id)"),
    ("children", "PRIMARY KEY (id, owner_id)"),
    ("children", "UNIQUE (number, owner_id)"),
    (
        "children",
        "FOREIGN KEY (parent_id, owner_id) REFERENCES parents(id, owner_id) DEFERRABLE INITIALLY DEFERRED",
    ),
}


class Interrupted(Exception):
    """The process ends."""


def ask(sql: str) -> set[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return set(cursor.fetchall())


@contextmanager
def tables() -> Iterator[None]:
    """A table of owners, and one that refers to it, with keys of one column. The second has owners yet to be filled."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE parents (id integer PRIMARY KEY, owner_id integer NOT NULL)")
        cursor.execute(
            "CREATE TABLE children (id integer PRIMARY KEY, number integer UNIQUE, owner_id integer NOT NULL,"
            " parent_id integer NOT NULL REFERENCES parents DEFERRABLE INITIALLY DEFERRED)"
        )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE children, parents")


def interrupt(number: int) -> bool:
    """Complete the keys as far as a statement, which PostgreSQL leaves behind as it does. False if there are fewer."""
    numbers = count()

    def run(execute: Any, sql: str, *context: Any) -> Any:
        if next(numbers) < number:
            return execute(sql, *context)
        if "CONCURRENTLY" in sql and "CREATE" in sql:
            execute(sql, *context)
            name = sql.split()[4]
            execute(
                f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass('{name}')", *context
            )
        raise Interrupted

    with suppress(Interrupted), connection.execute_wrapper(run):
        owner_column.complete_keys()
        return False
    return True


def test_keys_are_completed_wherever_that_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_column, "owned_tables", lambda: {"parents": "owner_id", "children": "owner_id"})
    for number in count():
        with tables():
            is_interrupted = interrupt(number)
            owner_column.complete_keys()
            found = ask(
                "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint"
                " WHERE contype <> 'n' AND conrelid IN ('parents'::regclass, 'children'::regclass)"
            )
            assert found == KEYS, f"interrupted at statement {number}"
            assert ask("SELECT 1 FROM pg_class WHERE relname LIKE '%\\_owner'") == set()
        if not is_interrupted:
            break
    assert number > 20


def test_filling_gives_way_to_whoever_holds_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_column, "LOCK_SECONDS", 0.2)

    def fill() -> None:
        try:
            owner_column._fill(owner_column.OwnerFrom("children", "id", "parent_id", "parents"))
        finally:
            connection.close()

    with tables(), ThreadPoolExecutor(1) as thread:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO parents VALUES (1, 7)")
            cursor.execute("INSERT INTO children VALUES (1, 1, 0, 1), (2, 2, 0, 1)")
            with transaction.atomic():
                cursor.execute("UPDATE children SET number = 20 WHERE id = 2")
                filling = thread.submit(fill)
                wait_for(lambda: ask("SELECT 1 FROM pg_locks WHERE NOT granted"), "the filling waits")
                cursor.execute("UPDATE children SET number = 10 WHERE id = 1")
        filling.result()
        assert ask("SELECT number, owner_id FROM children") == {(10, 7), (20, 7)}
