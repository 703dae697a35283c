"""A database from before each app's migrations were squashed into one is migrated without further steps."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from chatmemory.database import migration_state

pytestmark = pytest.mark.django_db

OURS = ("conversations", "memory")


@pytest.fixture
def before() -> list[tuple[str, str]]:
    """Record the 22 replaced migrations as applied, as before the squash. Later ones stay applied."""
    recorder = MigrationRecorder(connection)
    recorder.migration_qs.filter(app__in=OURS, name="0001_squashed").delete()
    replaced = [
        one
        for migration in MigrationLoader(None).disk_migrations.values()
        if migration.app_label in OURS
        for one in migration.replaces
    ]
    for app, name in replaced:
        recorder.record_applied(app, name)
    return replaced


def test_it_needs_nothing(before: list[tuple[str, str]]) -> None:
    assert len(before) == 22
    assert migration_state.problem() is None
    call_command("migrate", verbosity=0)
    applied = MigrationRecorder(connection).applied_migrations().keys()
    assert {(app, "0001_squashed") for app in OURS} <= applied
    assert migration_state.problem() is None


def test_one_that_lacks_some_is_told_so(before: list[tuple[str, str]]) -> None:
    MigrationRecorder(connection).record_unapplied(*before[-1])
    assert migration_state.problem() == migration_state.TOO_OLD
    MigrationRecorder(connection).record_unapplied("memory", "0002_pause")
    assert migration_state.problem() == migration_state.TOO_OLD
