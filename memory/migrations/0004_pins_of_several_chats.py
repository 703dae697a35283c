"""The index of pins that hold in several chats. On PostgreSQL it is made while others write."""

from typing import Any

from django.db import migrations, models


class AddIndex(migrations.AddIndex):
    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        options = {"concurrently": True} if schema_editor.connection.vendor == "postgresql" else {}
        schema_editor.add_index(to_state.apps.get_model(app_label, self.model_name), self.index, **options)


class Migration(migrations.Migration):
    atomic = False  # as PostgreSQL wants for that
    dependencies = [("memory", "0003_across_chats")]
    operations = [
        AddIndex(
            "pin",
            models.Index(
                fields=["owner_id", "-created_at"],
                name="pin_of_several_chats",
                condition=models.Q(("scope", "chat"), _negated=True),
            ),
        ),
    ]
