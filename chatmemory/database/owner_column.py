"""Gives tables that are in use the column of their rows' owner, and makes it a part of their keys.

Migrations add the column to tables of any size while servers read and write them: at once, with 0 for "not known"; on
PostgreSQL a trigger fills it in rows of servers that do not know of it; what was there is filled in batches. Then, and
after every migration, `complete_keys` gives each key among rows of owners that column, as a database that distributes
them demands. Models keep their keys of one column, which say the same: an id has one owner.

Each step looks at what there is, so one that was interrupted is repeated. SQLite keeps its keys.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.apps import apps as all_apps
from django.db import OperationalError, connection, transaction
from psycopg.errors import DeadlockDetected, LockNotAvailable

from chatmemory.database.owned import Owned

BATCH = 2_000
"""Rows per transaction."""
LOCK_SECONDS = 2
"""The longest wait for a lock, since everybody else waits behind it. Then it is tried again, after as long."""
LOCK_ATTEMPTS = 100

_FILL_OWNER = """
CREATE OR REPLACE FUNCTION chatmemory_fill_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT %I FROM %I WHERE id = ($1).%I', TG_ARGV[0], TG_ARGV[1], TG_ARGV[2])
        INTO NEW.owner_id USING NEW;
    NEW.owner_id := coalesce(NEW.owner_id, 0);
    RETURN NEW;
END $$
"""


@dataclass(frozen=True)
class OwnerFrom:
    """The table that gets the column, with its primary key, and the other that has the owner."""

    table: str
    key: str
    reference: str
    """The table's column that refers to the other."""
    other: str
    owner: str = "owner_id"


def add_owner(*tables: OwnerFrom) -> Callable[[Any, Any], None]:
    """Return a function for `RunPython`, outside of a transaction, that adds the column to `tables` and fills it."""

    def run(apps: Any, schema_editor: Any) -> None:
        for one in tables:
            trigger = (
                f"CREATE TRIGGER fill_owner BEFORE INSERT ON {one.table} FOR EACH ROW WHEN (NEW.owner_id = 0)"
                f" EXECUTE FUNCTION chatmemory_fill_owner('{one.owner}', '{one.other}', '{one.reference}')"
            )
            add_column(one.table, _FILL_OWNER, trigger)
        for one in tables:
            _fill(one)

    return run


def add_column(table: str, *trigger: str) -> None:
    """Add the column where it is not there yet; on PostgreSQL with what fills it in rows of older servers."""
    with connection.cursor() as cursor:
        columns = connection.introspection.get_table_description(cursor, table)
    if not any(column.name == "owner_id" for column in columns):
        statements = trigger if connection.vendor == "postgresql" else ()
        change(f"ALTER TABLE {table} ADD COLUMN owner_id integer NOT NULL DEFAULT 0", *statements)


def _fill(one: OwnerFrom) -> None:
    """Fill rows page by page in the order of their key."""
    key, after = one.key, list[Any]()
    owner = f"(SELECT o.{one.owner} FROM {one.other} o WHERE o.id = {one.table}.{one.reference})"
    while True:
        page = f"{key} > %s" if after else "1 = 1"
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT {key} FROM {one.table} WHERE {page} ORDER BY {key} LIMIT 1 OFFSET {BATCH}", after
            )
            until = list(cursor.fetchone() or ())
        page += f" AND {key} <= %s" if until else ""
        change(
            f"UPDATE {one.table} SET owner_id = coalesce({owner}, 0) WHERE {page} AND owner_id = 0",
            params=[*after, *until],
        )
        if not until:
            return
        after = until


class _Key(NamedTuple):
    """A constraint of the catalog: `p`, `u` or `f` (primary, unique, foreign), with its columns."""

    table: str
    name: str
    kind: str
    columns: list[str]
    target: str | None
    target_columns: list[str]

    @property
    def new_name(self) -> str:
        return f"{self.name[:55]}_owner"


_KEYS = """
SELECT conrelid::regclass::text, conname::text, contype::text,
    ARRAY(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY k(n, i)
        JOIN pg_attribute ON attrelid = conrelid AND attnum = n ORDER BY i),
    confrelid::regclass::text,
    ARRAY(SELECT attname::text FROM unnest(confkey) WITH ORDINALITY k(n, i)
        JOIN pg_attribute ON attrelid = confrelid AND attnum = n ORDER BY i)
FROM pg_constraint WHERE contype IN ('p', 'u', 'f') AND conrelid::regclass::text = ANY(%s)
"""


def owned_tables() -> dict[str, str]:
    """The column of the owner by table, of all tables whose rows have one."""
    owned = (model for model in all_apps.get_models() if issubclass(model, Owned))
    return {model._meta.db_table: model.owner_column() for model in owned}


def complete_keys() -> None:
    """Make the owner a part of each key that lacks it, on PostgreSQL."""
    if connection.vendor != "postgresql":
        return
    owners = owned_tables()
    with connection.cursor() as cursor:
        cursor.execute(_KEYS, [list(owners)])
        keys = [_Key(*row) for row in cursor.fetchall()]
    names = {key.name for key in keys}
    wanting = [
        key
        for key in keys
        if owners[key.table] not in key.columns and (key.kind != "f" or key.target in owners)
    ]
    unique = [key for key in wanting if key.kind != "f"]
    foreign = [key for key in wanting if key.kind == "f"]
    for key in unique:
        _make_index(key, owners)
    for key in foreign:
        if key.new_name not in names:
            columns, target = _with(key.columns, owners[key.table]), owners[str(key.target)]
            change(
                f"ALTER TABLE {key.table} ADD CONSTRAINT {key.new_name} FOREIGN KEY ({columns})"
                f" REFERENCES {key.target} ({_with(key.target_columns, target)})"
                " DEFERRABLE INITIALLY DEFERRED NOT VALID",
            )
        _run(f"ALTER TABLE {key.table} VALIDATE CONSTRAINT {key.new_name}")
    for key in foreign:
        change(
            f"ALTER TABLE {key.table} DROP CONSTRAINT {key.name}",
            f"ALTER TABLE {key.table} RENAME CONSTRAINT {key.new_name} TO {key.name}",
        )
    for key in unique:
        kind = "PRIMARY KEY" if key.kind == "p" else "UNIQUE"
        change(
            f"ALTER TABLE {key.table} DROP CONSTRAINT {key.name},"
            f" ADD CONSTRAINT {key.name} {kind} USING INDEX {key.new_name}",
        )


def _make_index(key: _Key, owners: dict[str, str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [key.new_name])
        found = cursor.fetchone()
    if found != (True,):  # one that is not valid was interrupted
        columns = _with(key.columns, owners[key.table])
        _run(f"DROP INDEX CONCURRENTLY IF EXISTS {key.new_name}")
        _run(f"CREATE UNIQUE INDEX CONCURRENTLY {key.new_name} ON {key.table} ({columns})")


def _with(columns: list[str], owner: str) -> str:
    return ", ".join([*columns, owner])


def _run(statement: str, params: list[Any] | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)


def change(*statements: str, params: list[Any] | None = None) -> None:
    """Run statements in one transaction that gives way: whenever a lock is not free soon, it begins again later."""
    for attempt in range(LOCK_ATTEMPTS):
        try:
            with transaction.atomic():
                if connection.vendor == "postgresql":
                    _run(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
                for statement in statements:
                    _run(statement, params)
            return
        except OperationalError as error:
            is_locked = isinstance(error.__cause__, LockNotAvailable | DeadlockDetected)
            if not is_locked or attempt == LOCK_ATTEMPTS - 1:
                raise
            time.sleep(LOCK_SECONDS)
