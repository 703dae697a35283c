"""Distributes the rows of owners over the nodes of a Citus cluster: see docs/scale.md.

Tables of owners are distributed by owner and co-located, so that one node has all rows of an owner and runs every
statement about them. Each key of these tables gets the owner's column, as Citus demands. The tables that they refer to
beyond that are copied to every node. All others stay where they are.
"""

from typing import NamedTuple

from django.db.backends.base.base import BaseDatabaseWrapper

from chatmemory.database.owned import owned_tables

EVERYWHERE = ("auth_user", "conversations_app")
"""Tables of which every node has a copy, each after those that it refers to."""
FIRST = "conversations_chat"
"""The table of owners with which the others are co-located."""

_DISTRIBUTED = "SELECT logicalrelid::regclass::text FROM pg_dist_partition WHERE partmethod = 'h' OR repmodel = 't'"
_KEYS = """
SELECT conrelid::regclass::text, quote_ident(conname), contype::text,
    ARRAY(SELECT attname::text FROM unnest(conkey) WITH ORDINALITY k(n, i)
        JOIN pg_attribute ON attrelid = conrelid AND attnum = n ORDER BY i),
    confrelid::regclass::text,
    ARRAY(SELECT attname::text FROM unnest(confkey) WITH ORDINALITY k(n, i)
        JOIN pg_attribute ON attrelid = confrelid AND attnum = n ORDER BY i)
FROM pg_constraint WHERE contype IN ('p', 'u', 'f') AND conrelid::regclass::text = ANY(%s) ORDER BY 1, 2
"""
_IDS = """
SELECT table_name, column_name,
    coalesce(pg_sequence_last_value(pg_get_serial_sequence(table_name, column_name)::regclass)::text, 'NULL')
FROM information_schema.columns
WHERE is_identity = 'YES' AND table_schema = current_schema() AND NOT table_name = ANY(%s) ORDER BY 1
"""


class _Key(NamedTuple):
    """A constraint of the catalog: `p`, `u` or `f` (primary, unique, foreign), with its columns."""

    table: str
    name: str
    kind: str
    columns: list[str]
    target: str
    target_columns: list[str]

    def with_owner(self, owners: dict[str, str]) -> str:
        """Return the constraint's definition with the owner among its columns, if both tables have one."""
        columns, target_columns = self.columns, self.target_columns
        if self.kind != "f" or self.target in owners:
            columns = _joined(columns, owners[self.table])
        if self.target in owners:
            target_columns = _joined(target_columns, owners[self.target])
        kind = {"p": "PRIMARY KEY", "u": "UNIQUE", "f": "FOREIGN KEY"}[self.kind]
        references = f" REFERENCES {self.target} ({', '.join(target_columns)})" if self.kind == "f" else ""
        return f"{kind} ({', '.join(columns)}){references}"


def _joined(columns: list[str], owner: str) -> list[str]:
    return columns if owner in columns else [*columns, owner]


def is_citus(connection: BaseDatabaseWrapper) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'")
        return cursor.fetchone() is not None


def statements(connection: BaseDatabaseWrapper) -> list[str]:
    """Return what distributes the tables that are not distributed yet, to be run in one transaction.

    Citus distributes no table with a foreign key to a table of another kind: so keys are dropped first and added again,
    and checked, at the end. What breaks a key is refused at
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
        cursor.execute(_KEYS, [spread])
        keys = [_Key(*row) for row in cursor.fetchall()]
        ids = rows(_IDS, list(owners))
        ((database,),) = rows("SELECT quote_ident(current_database())")
    foreign = [key for key in keys if key.kind == "f"]
    unique = [key for key in keys if key.kind != "f" and owners[key.table] not in key.columns]
    colocated = f", colocate_with => '{FIRST}'"
    return [
        *(f"ALTER TABLE {key.table} DROP CONSTRAINT {key.name}" for key in foreign),
        *(
            f"ALTER TABLE {key.table} DROP CONSTRAINT {key.name}, ADD CONSTRAINT {key.name} {key.with_owner(owners)}"
            for key in unique
        ),
        *(f"SELECT create_reference_table('{table}')" for table in copied),
        *(
            f"SELECT create_distributed_table('{table}', '{owners[table]}'{'' if table == FIRST else colocated})"
            for table in spread
        ),
        *(f"ALTER TABLE {key.table} ADD CONSTRAINT {key.name} {key.with_owner(owners)}" for key in foreign),
        *(
            f"SELECT setval(pg_get_serial_sequence('{table}', '{name}'), greatest({last}, max({name}))) FROM {table}"  # noqa: S608  # our own tables' names
            for table, name, last in ids
        ),
        *(f"SELECT truncate_local_data_after_distributing_table('{table}')" for table in [*copied, *spread]),
        f"ALTER DATABASE {database} SET citus.multi_shard_modify_mode = 'sequential'",
    ]
