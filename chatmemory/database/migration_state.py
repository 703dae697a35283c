"""Whether the database has all migrations of this version, and a sentence for the operator if it does not."""

from __future__ import annotations

from functools import cache

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

TOO_OLD = (
    "The database has some of the migrations that are one now, not all. Migrate it with the last version that has them "
    "one by one (docs/deploy.md, Backups and upgrades), then with this one."
)


def problem() -> str | None:
    """Return the sentence, or None if no migration is missing (one query). Raise errors of the database."""
    if _wanted() <= MigrationRecorder(connection).applied_migrations().keys():
        return None
    executor = MigrationExecutor(connection)
    if not _wanted() <= executor.loader.graph.nodes.keys():
        return TOO_OLD
    missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if not missing:
        return None
    are = "1 migration is" if missing == 1 else f"{missing} migrations are"
    return f"The database is not migrated ({are} missing): run `manage.py migrate`."


@cache
def _wanted() -> set[tuple[str, str]]:
    """The migrations of this version. A squashed migration counts instead of those that it replaces."""
    return set(MigrationLoader(None).graph.nodes)
