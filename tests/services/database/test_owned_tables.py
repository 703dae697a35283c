"""Tables of owners: which they are, and that a new one is added as Django's documentation shows."""

from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models
from django.db.migrations import CreateModel
from django.db.migrations.loader import MigrationLoader

from chatmemory.database.owned import Owned
from tests.support.factories import make_chat

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


def test_owned_models_refer_to_an_owner_or_a_chat() -> None:
    local = {
        *("contentview", "erased", "erasure", "webhookevent", "tokengrant", "app", "enduser"),
        *("usageday", "foldday", "ownermonth", "worker"),
    }
    ours = [model for app in ("conversations", "memory") for model in apps.get_app_config(app).get_models()]
    assert {model._meta.model_name for model in ours if not issubclass(model, Owned)} == local


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
