"""Whether the database has all migrations of this version, and a sentence for the operator if it does not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from django.core import checks
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

TOO_OLD = (
    "The database is older than commit 3554c75 of 24 November 2026, whose migrations are one now. Migrate it with that "
    "commit, then with this version (docs/upgrade.md)."
)


def problem() -> str | None:
    """Return the sentence, or None if no migration is missing (one query). Raise errors of the database."""
    if _all_migrations() <= MigrationRecorder(connection).applied_migrations().keys():
        return None
    executor = MigrationExecutor(connection)
    if _is_too_old(executor.loader):
        return TOO_OLD
    missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if not missing:
        return None
    are = "1 migration is" if missing == 1 else f"{missing} migrations are"
    return f"The database is not migrated ({are} missing): run `manage.py migrate`."


def check_age(databases: Sequence[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """`migrate` refuses what it would break: Django runs what follows a squashed migration without it."""
    names = databases or ()
    if any(_is_too_old(MigrationLoader(connections[name])) for name in names):
        return [checks.Error(TOO_OLD, id="chatmemory.E001")]
    return []


def _is_too_old(loader: MigrationLoader) -> bool:
    """Whether an app has some of its migrations, but not what it begins with."""
    applied = loader.applied_migrations
    begun = {app for app, _ in applied}
    return any(first not in applied and first[0] in begun for first in loader.graph.root_nodes())


@cache
def _all_migrations() -> set[tuple[str, str]]:
    """The migrations of this version. A squashed migration counts instead of those that it replaces."""
    return set(MigrationLoader(None).graph.nodes)
