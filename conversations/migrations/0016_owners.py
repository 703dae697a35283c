"""The owner's id in every row that is reached by its chat: see `chatmemory.database.owner_column`."""

import django.db.models.deletion
from django.db import migrations, models

from chatmemory.database.owner_column import OwnerFrom, add_column, add_owner, change

CHAT = ("chat_id", "conversations_chat")
MODELS = ("message", "activereply", "attachmentpiece", "attachmentlink", "window")

FILL_WINDOW = """
CREATE OR REPLACE FUNCTION chatmemory_fill_window() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.owner_id := NEW.key::integer;
    RETURN NEW;
END $$
"""
TRIGGER = """
CREATE TRIGGER fill_owner BEFORE INSERT ON conversations_window FOR EACH ROW
    WHEN (NEW.owner_id = 0 AND NEW.kind <> 'sign_ins') EXECUTE FUNCTION chatmemory_fill_window()
"""


def add_owner_to_windows(apps, schema_editor):
    """The key of a user's count is their id."""
    add_column("conversations_window", FILL_WINDOW, TRIGGER)
    change("UPDATE conversations_window SET owner_id = CAST(key AS integer) WHERE kind <> 'sign_ins' AND owner_id = 0")


class Migration(migrations.Migration):

    atomic = False
    dependencies = [("conversations", "0015_fill_chats")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField("activereply", "owner", models.CharField(db_column="owner", db_index=True, max_length=100)),
                migrations.RenameField("activereply", "owner", "lease_owner"),
                migrations.CreateModel(
                    name="AttachmentLink",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("message", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="conversations.message")),
                        ("storedattachment", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="conversations.storedattachment")),
                    ],
                    options={
                        "db_table": "conversations_storedattachment_messages",
                        "default_permissions": (),
                        "unique_together": {("storedattachment", "message")},
                    },
                ),
                migrations.AlterField("storedattachment", "messages", models.ManyToManyField(related_name="stored_attachments", through="conversations.AttachmentLink", to="conversations.message")),
                *(migrations.AddField(model, "owner_id", models.IntegerField(editable=False)) for model in MODELS[:-1]),
                migrations.AddField("window", "owner_id", models.IntegerField(default=0)),
            ],
        ),
        migrations.RunPython(add_owner_to_windows, migrations.RunPython.noop),
        migrations.RunPython(
            add_owner(
                OwnerFrom("conversations_message", "id", *CHAT),
                OwnerFrom("conversations_activereply", "chat_id", *CHAT),
                OwnerFrom("conversations_attachmentpiece", "id", "attachment_id", "conversations_storedattachment", owner="user_id"),
                OwnerFrom("conversations_storedattachment_messages", "id", "storedattachment_id", "conversations_storedattachment", owner="user_id"),
            ),
            migrations.RunPython.noop,
        ),
    ]
