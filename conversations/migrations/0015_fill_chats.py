from uuid import UUID

from django.db import migrations
from django.db.models import F

from conversations.finding import pairs_of

BATCH = 200
"""Chats per transaction."""


def fill_times(apps, schema_editor):
    """Nothing says when a chat's last message was stored; it was not after its last change."""
    chats = apps.get_model("conversations", "Chat").objects.using(schema_editor.connection.alias)
    chats.update(last_message_at=F("updated_at"))


def fill_metadata(apps, schema_editor):
    """Have the chats that there are found by their metadata. What was filled before an interruption stays."""
    alias = schema_editor.connection.alias
    index = apps.get_model("conversations", "ChatMetadata")
    chats = apps.get_model("conversations", "Chat").objects.using(alias).exclude(metadata={}).order_by("pk")
    last = UUID(int=0)
    while batch := list(chats.filter(pk__gt=last).values_list("pk", "owner_id", "metadata")[:BATCH]):
        index.objects.using(alias).bulk_create(
            (
                index(chat_id=chat, owner_id=owner, pair=pair)
                for chat, owner, metadata in batch
                for pair in pairs_of(metadata)
            ),
            ignore_conflicts=True,
        )
        last = batch[-1][0]


class Migration(migrations.Migration):

    atomic = False
    dependencies = [("conversations", "0014_apps")]

    operations = [
        migrations.RunPython(fill_times, migrations.RunPython.noop),
        migrations.RunPython(fill_metadata, migrations.RunPython.noop),
    ]
