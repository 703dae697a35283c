"""Every key among rows of owners has the owner, as a database demands that distributes them: docs/scale.md."""

from typing import Any

import pytest
from django.apps import apps
from django.db import ProgrammingError, connection, models, transaction
from django.db.migrations import CreateModel
from django.db.migrations.loader import MigrationLoader
from django.db.models import Count

from chatmemory.database.distribution import EVERYWHERE
from chatmemory.database.owned import Owned
from chatmemory.database.owner_column import owned_tables
from conversations.models import Chat
from tests.support.factories import make_chat

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="its catalog"),
]


def rows(sql: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def test_unique_indexes_have_the_owner() -> None:
    found = rows(
        "SELECT indrelid::regclass::text, indexrelid::regclass::text,"
        " ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = indrelid AND attnum = ANY(indkey))"
        " FROM pg_index WHERE indisunique"
    )
    owners = owned_tables()
    assert {table for table, _, _ in found} >= set(owners)
    assert [
        index for table, index, columns in found if table in owners and owners[table] not in columns
    ] == []


def test_foreign_keys_stay_with_the_owner_or_lead_to_tables_that_are_everywhere() -> None:
    found = rows(
        "SELECT conrelid::regclass::text, confrelid::regclass::text, conname,"
        " ARRAY(SELECT a.attname::text || '=' || b.attname::text FROM unnest(conkey, confkey) k(mine, theirs)"
        " JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = mine"
        " JOIN pg_attribute b ON b.attrelid = confrelid AND b.attnum = theirs), convalidated"
        " FROM pg_constraint WHERE contype = 'f'"
    )
    owners = owned_tables()
    assert [
        name
        for table, target, name, pairs, is_valid in found
        if table in owners
        and not (
            target in EVERYWHERE
            or (target in owners and f"{owners[table]}={owners[target]}" in pairs and is_valid)
        )
    ] == []
    assert [name for table, target, name, _, _ in found if target in owners and table not in owners] == []


def test_rows_of_owners_are_those_that_refer_to_an_owner_or_a_chat() -> None:
    local = {
        *("contentview", "erased", "erasure", "webhookevent", "tokengrant", "app", "enduser"),
        *("usageday", "foldday", "ownermonth", "worker"),
    }
    ours = [model for app in ("conversations", "memory") for model in apps.get_app_config(app).get_models()]
    assert {model._meta.model_name for model in ours if not issubclass(model, Owned)} == local


def test_nothing_is_left_of_a_change_of_keys() -> None:
    assert rows("SELECT 1 FROM pg_constraint WHERE conname LIKE '%\\_owner'") == []
    assert rows("SELECT 1 FROM pg_class WHERE relkind = 'i' AND relname LIKE '%\\_owner'") == []
    assert rows("SELECT 1 FROM pg_index WHERE NOT indisvalid") == []


def test_rows_are_grouped_by_all_their_columns() -> None:
    """By the id alone PostgreSQL groups only where that is the whole primary key."""
    assert list(Chat.objects.annotate(Count("messages"))) == []


@pytest.mark.xfail(
    strict=True,
    raises=ProgrammingError,
    reason="Keys of owners' tables have two columns, which no migration made by Django refers to.",
)
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
    with (
        transaction.atomic(),
        connection.schema_editor(atomic=False) as editor,
    ):  # its own is left open by an error
        operation.database_forwards("memory", editor, before, after)
