"""A database of commit fe405414 is migrated without further steps; an older one is refused."""

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django_q.models import Schedule

from chatmemory.database import startup

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

OURS = ("conversations", "memory")


@pytest.fixture
def recorder() -> MigrationRecorder:
    """Record what commit fe405414 had applied, in place of what replaces it. Later ones stay applied."""
    recorder = MigrationRecorder(connection)
    for migration in MigrationLoader(None).disk_migrations.values():
        if migration.app_label in OURS and migration.replaces:
            recorder.record_unapplied(migration.app_label, migration.name)
            for app, name in migration.replaces:
                recorder.record_applied(app, name)
    return recorder


def test_a_database_of_that_commit_needs_nothing(recorder: MigrationRecorder) -> None:
    assert startup.migrations_problem() is None
    call_command("migrate", verbosity=0, skip_checks=False)
    assert {
        ("conversations", "0001_initial"),
        ("memory", "0001_initial"),
    } <= recorder.applied_migrations().keys()


@pytest.mark.parametrize("applied", [["0001_squashed"], ["0001_to_0009", "0010_to_0017"]], ids=["first", "some"])
def test_an_older_one_is_refused(recorder: MigrationRecorder, applied: list[str]) -> None:
    """It has the first names of all, or some of those that are one now."""
    recorder.migration_qs.filter(app="memory").delete()
    for name in applied:
        recorder.record_applied("memory", name)
    assert startup.migrations_problem() == startup.TOO_OLD
    with pytest.raises(SystemCheckError, match="older than commit fe405414"):
        call_command("migrate", verbosity=0, skip_checks=False)


def test_apps_migrate_in_any_order() -> None:
    """What follows the migrations, as of all apps, waits for the last."""
    (last,) = MigrationLoader(None).graph.leaf_nodes("memory")
    MigrationRecorder(connection).record_unapplied(*last)
    Schedule.objects.all().delete()
    call_command("migrate", "conversations", verbosity=0)
    assert not Schedule.objects.exists()
    call_command("migrate", fake=True, verbosity=0)
    assert Schedule.objects.exists()
