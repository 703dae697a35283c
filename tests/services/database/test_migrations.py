"""Which databases can be migrated, that a new table of owners can be added, and keys of an earlier version replaced."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import count
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection, models
from django.db.migrations import CreateModel
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django_q.models import Schedule

from chatmemory.database import startup
from chatmemory.database.owned import Owned
from tests.support.factories import make_chat

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


# Tables of owners


def test_owned_models_refer_to_an_owner_or_a_chat() -> None:
    local = {
        *("contentview", "erased", "erasure", "webhookevent", "tokengrant", "app", "enduser"),
        *("usageday", "foldday", "ownermonth", "worker"),
    }
    ours = [model for app in ("conversations", "memory") for model in apps.get_app_config(app).get_models()]
    assert {model._meta.model_name for model in ours if not issubclass(model, Owned)} == local


@pytest.mark.django_db(transaction=True)
def test_create_table_that_refers_to_a_chat_on_a_migrated_database_succeeds() -> None:
    """As a new model does with `OwnedKey(Chat)`, and `makemigrations` for it."""
    make_chat()
    fields: list[tuple[str, Any]] = [
        ("id", models.BigAutoField(primary_key=True)),
        ("owner_id", models.IntegerField(editable=False)),
        ("chat", models.ForeignKey("conversations.Chat", models.CASCADE)),
    ]
    before = MigrationLoader(connection).project_state()
    after, operation = before.clone(), CreateModel("Note", fields)
    operation.state_forwards("memory", after)
    with connection.schema_editor() as editor:
        operation.database_forwards("memory", editor, before, after)
    with connection.schema_editor() as editor:
        operation.database_backwards("memory", editor, after, before)


# Keys with the owner, as an earlier version made them, become those of the models

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


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has always had the keys of the models")
@pytest.mark.django_db(transaction=True)
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
