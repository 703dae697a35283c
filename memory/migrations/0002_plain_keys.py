"""On PostgreSQL: keys as the models have them, without the owner's column that commit fe405414 had added to each.

`manage.py distribute` adds it where it is needed, so a database that is distributed keeps its keys. Servers of the
commit before run on both. Each step looks at what there is, so one that was interrupted is repeated.
"""

import time
from typing import NamedTuple

from django.db import OperationalError, migrations, transaction
from psycopg.errors import DeadlockDetected, LockNotAvailable

LOCK_SECONDS = 2
"""The longest wait for a lock, since everybody else waits behind it. Then it is tried again, after as long."""
LOCK_ATTEMPTS = 100

KEYS = """
SELECT conrelid::regclass::text, conname::text, contype::text, columns[:cardinality(columns) - 1],
    confrelid::regclass::text, target_columns[:cardinality(target_columns) - 1]
FROM pg_constraint, LATERAL (
    SELECT ARRAY(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY k(n, i)
            JOIN pg_attribute ON attrelid = conrelid AND attnum = n ORDER BY i),
        ARRAY(SELECT attname::text FROM unnest(confkey) WITH ORDINALITY k(n, i)
            JOIN pg_attribute ON attrelid = confrelid AND attnum = n ORDER BY i)
) names(columns, target_columns)
WHERE contype IN ('p', 'u', 'f') AND cardinality(columns) > 1 AND columns[cardinality(columns)] IN ('owner_id', 'user_id')
    AND conrelid::regclass::text ~ '^(conversations|memory)_'
"""
TRIGGERS = """
SELECT tgrelid::regclass::text FROM pg_trigger
WHERE tgname = 'fill_owner' AND tgrelid::regclass::text ~ '^(conversations|memory)_'
"""


class Key(NamedTuple):
    """A constraint of the catalog: `p`, `u` or `f` (primary, unique, foreign), with its columns but the owner."""

    table: str
    name: str
    kind: str
    columns: list
    target: str
    target_columns: list

    @property
    def new_name(self):
        return f"{self.name[:55]}_plain"


def make_keys_plain(apps, schema_editor):
    connection = schema_editor.connection
    if connection.vendor != "postgresql":
        return

    def rows(query, *parameters):
        with connection.cursor() as cursor:
            cursor.execute(query, parameters)
            return cursor.fetchall()

    def run(statement):
        with connection.cursor() as cursor:
            cursor.execute(statement)

    def change(*statements):
        """Run statements in one transaction that gives way: whenever a lock is not free soon, it begins again later."""
        for attempt in range(LOCK_ATTEMPTS):
            try:
                with transaction.atomic(connection.alias):
                    run(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
                    for statement in statements:
                        run(statement)
                return
            except OperationalError as error:
                is_locked = isinstance(error.__cause__, LockNotAvailable | DeadlockDetected)
                if not is_locked or attempt == LOCK_ATTEMPTS - 1:
                    raise
                time.sleep(LOCK_SECONDS)

    for (table,) in rows(TRIGGERS):  # filled the column in rows of still older servers
        change(f"DROP TRIGGER fill_owner ON {table}", f"ALTER TABLE {table} ALTER COLUMN owner_id DROP DEFAULT")
    run("DROP FUNCTION IF EXISTS chatmemory_fill_owner(), chatmemory_fill_window()")
    if rows("SELECT 1 FROM pg_extension WHERE extname = 'citus'"):
        return
    keys = [Key(*row) for row in rows(KEYS)]
    unique = [key for key in keys if key.kind != "f"]
    foreign = [key for key in keys if key.kind == "f"]
    for key in unique:
        if rows("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", key.new_name) != [(True,)]:
            run(f"DROP INDEX CONCURRENTLY IF EXISTS {key.new_name}")  # one that is not valid was interrupted
            run(f"CREATE UNIQUE INDEX CONCURRENTLY {key.new_name} ON {key.table} ({', '.join(key.columns)})")
    for key in foreign:
        if not rows("SELECT 1 FROM pg_constraint WHERE conname = %s", key.new_name):
            change(
                f"ALTER TABLE {key.table} ADD CONSTRAINT {key.new_name} FOREIGN KEY ({', '.join(key.columns)})"
                f" REFERENCES {key.target} ({', '.join(key.target_columns)}) DEFERRABLE INITIALLY DEFERRED NOT VALID"
            )
        run(f"ALTER TABLE {key.table} VALIDATE CONSTRAINT {key.new_name}")
    for key in foreign:
        change(
            f"ALTER TABLE {key.table} DROP CONSTRAINT {key.name}",
            f"ALTER TABLE {key.table} RENAME CONSTRAINT {key.new_name} TO {key.name}",
        )
    for key in unique:
        kind = "PRIMARY KEY" if key.kind == "p" else "UNIQUE"
        change(
            f"ALTER TABLE {key.table} DROP CONSTRAINT {key.name},"
            f" ADD CONSTRAINT {key.name} {kind} USING INDEX {key.new_name}"
        )


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("conversations", "0001_initial"), ("memory", "0001_initial")]
    operations = [migrations.RunPython(make_keys_plain, migrations.RunPython.noop)]
