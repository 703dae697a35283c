"""Distributes the rows of owners over the nodes of a Citus cluster: see docs/scale.md.

Tables of owners are distributed by owner and co-located, so that one node has all rows of an owner and runs every
statement about them. The tables that they refer to beyond that are copied to every node. All others stay where they
are.
"""

from django.db.backends.base.base import BaseDatabaseWrapper

from chatmemory.database.owner_column import owned_tables

EVERYWHERE = ("auth_user", "conversations_app")
"""Tables of which every node has a copy, each after those that it refers to."""
FIRST = "conversations_chat"
"""The table of owners with which the others are co-located."""

_DISTRIBUTED = (
    "SELECT logicalrelid::regclass::text FROM pg_dist_partition WHERE partmethod = 'h' OR repmodel = 't'"
)
_KEYS = """
SELECT conrelid::regclass::text, quote_ident(conname),
    replace(pg_get_constraintdef(oid), ' DEFERRABLE INITIALLY DEFERRED', '')
FROM pg_constraint WHERE contype = 'f' AND conrelid::regclass::text = ANY(%s) ORDER BY 1, 2
"""
_TRIGGERS = """
SELECT tgrelid::regclass::text, quote_ident(tgname) FROM pg_trigger
WHERE NOT tgisinternal AND tgrelid::regclass::text = ANY(%s) ORDER BY 1, 2
"""
_IDS = """
SELECT table_name, column_name,
    coalesce(pg_sequence_last_value(pg_get_serial_sequence(table_name, column_name)::regclass)::text, 'NULL')
FROM information_schema.columns
WHERE is_identity = 'YES' AND table_schema = current_schema() AND NOT table_name = ANY(%s) ORDER BY 1
"""


def is_citus(connection: BaseDatabaseWrapper) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'")
        return cursor.fetchone() is not None


def statements(connection: BaseDatabaseWrapper) -> list[str]:
    """Return what distributes the tables that are not distributed yet, to be run in one transaction.

    Citus distributes no table that has triggers, which only an upgrade needed, nor one with foreign keys to tables of
    another kind: so keys are dropped first and added again, and checked, at the end. What breaks a key is refused at
    once from then on: by the time of a commit, Citus cannot say what is wrong. It also refuses to change a copied
    table, as erasing a user does, after rows on several nodes were changed at once: so it shall change one node after
    the other. And it rebuilds the tables that stay and refer to copied ones, where ids then begin at 1: so they are
    set to continue.
    """
    owners = owned_tables()
    with connection.cursor() as cursor:

        def rows(query: str, *parameters: list[str]) -> list[tuple[str, ...]]:
            cursor.execute(query, parameters)
            return list(cursor.fetchall())

        done = {table for (table,) in rows(_DISTRIBUTED)} if is_citus(connection) else set()
        copied = [table for table in EVERYWHERE if table not in done]
        spread = [table for table in sorted(owners, key=lambda table: table != FIRST) if table not in done]
        keys, triggers, ids = rows(_KEYS, spread), rows(_TRIGGERS, spread), rows(_IDS, list(owners))
        ((database,),) = rows("SELECT quote_ident(current_database())")
    colocated = f", colocate_with => '{FIRST}'"
    return [
        *(f"ALTER TABLE {table} DROP CONSTRAINT {name}" for table, name, _ in keys),
        *(f"DROP TRIGGER {name} ON {table}" for table, name in triggers),
        *(f"SELECT create_reference_table('{table}')" for table in copied),
        *(
            f"SELECT create_distributed_table('{table}', '{owners[table]}'{'' if table == FIRST else colocated})"
            for table in spread
        ),
        *(f"ALTER TABLE {table} ADD CONSTRAINT {name} {key}" for table, name, key in keys),
        *(
            f"SELECT setval(pg_get_serial_sequence('{table}', '{name}'), greatest({last}, max({name}))) FROM {table}"  # noqa: S608  # our own tables' names
            for table, name, last in ids
        ),
        *(f"SELECT truncate_local_data_after_distributing_table('{table}')" for table in [*copied, *spread]),
        f"ALTER DATABASE {database} SET citus.multi_shard_modify_mode = 'sequential'",
    ]
