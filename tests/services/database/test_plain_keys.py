"""Keys with the owner, as an earlier version made them, become those of the models, wherever that is interrupted."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import count
from typing import Any

import pytest
from django.db import connection

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has always had the keys of the models"),
    pytest.mark.postgres,
]

PARENTS, CHILDREN = "memory_parents", "memory_children"
KEYS = {
    (PARENTS, "PRIMARY KEY (id)"),
    (CHILDREN, "PRIMARY KEY (id)"),
    (CHILDREN, "UNIQUE (number)"),
    (CHILDREN, f"FOREIGN KEY (parent_id) REFERENCES {PARENTS}(id) DEFERRABLE INITIALLY DEFERRED"),
}


class Interrupted(Exception):
    """The process ends."""


def ask(sql: str) -> set[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return set(cursor.fetchall())


@contextmanager
def tables() -> Iterator[None]:
    """A table of owners, and one that refers to it, with the owner in every key, a default and a trigger."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {PARENTS} (id integer, owner_id integer NOT NULL, PRIMARY KEY (id, owner_id));"
            f"CREATE TABLE {CHILDREN} (id integer, number integer, owner_id integer NOT NULL DEFAULT 0,"
            " parent_id integer NOT NULL, PRIMARY KEY (id, owner_id), UNIQUE (number, owner_id),"
            f" FOREIGN KEY (parent_id, owner_id) REFERENCES {PARENTS} DEFERRABLE INITIALLY DEFERRED);"
            "CREATE FUNCTION chatmemory_fill_owner() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;"
            f"CREATE TRIGGER fill_owner BEFORE INSERT ON {CHILDREN} FOR EACH ROW"
            " EXECUTE FUNCTION chatmemory_fill_owner()"
        )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE {CHILDREN}, {PARENTS}")


def make_keys_plain() -> None:
    with connection.schema_editor(atomic=False) as editor:
        import_module("memory.migrations.0002_plain_keys").make_keys_plain(None, editor)


def interrupt(number: int) -> bool:
    """Change the keys as far as a statement, which PostgreSQL leaves behind as it does. False if there are fewer."""
    numbers = count()

    def run(execute: Any, sql: str, *context: Any) -> Any:
        if next(numbers) < number:
            return execute(sql, *context)
        if "CONCURRENTLY" in sql and "CREATE" in sql:
            execute(sql, *context)
            name = sql.split()[4]
            execute(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass('{name}')", *context)
        raise Interrupted

    with suppress(Interrupted), connection.execute_wrapper(run):
        make_keys_plain()
        return False
    return True


def test_make_keys_plain_interrupted_anywhere_is_completed_by_another_run() -> None:
    for number in count():
        with tables():
            is_interrupted = interrupt(number)
            make_keys_plain()
            found = ask(
                "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint"
                f" WHERE contype <> 'n' AND conrelid IN ('{PARENTS}'::regclass, '{CHILDREN}'::regclass)"
            )
            assert found == KEYS, f"interrupted at statement {number}"
            assert ask("SELECT 1 FROM pg_class WHERE relname LIKE '%\\_plain'") == set()
            assert ask("SELECT 1 FROM pg_trigger WHERE tgname = 'fill_owner'") == set()
        if not is_interrupted:
            break
    assert number > 20
