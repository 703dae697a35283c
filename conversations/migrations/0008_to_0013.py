"""What migrations 0008 to 0013 did, in one."""

import django.db.models.deletion
from django.db import migrations, models

PIECE_BYTES = 192 * 1024


def split(apps, schema_editor):
    """Copy the bytes of every attachment into pieces, within the database: no image passes through this process."""
    number, copied = 0, 1
    with schema_editor.connection.cursor() as cursor:
        while copied:
            cursor.execute(
                "INSERT INTO conversations_attachmentpiece (attachment_id, number, data) "
                "SELECT id, %s, substr(data, %s, %s) FROM conversations_storedattachment WHERE size > %s",
                [number, number * PIECE_BYTES + 1, PIECE_BYTES, number * PIECE_BYTES],
            )
            copied = cursor.rowcount
            number += 1
        if schema_editor.connection.vendor == "postgresql":
            # Otherwise the table cannot be altered in this transaction: the new foreign keys are still to be checked.
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


class Migration(migrations.Migration):

    replaces = [
        ("conversations", "0008_completions_without_lists"),
        ("conversations", "0009_attachment_pieces"),
        ("conversations", "0010_end_users"),
        ("conversations", "0011_content_view_count"),
        ("conversations", "0012_words_people_use"),
        ("conversations", "0013_limits_in_windows"),
    ]

    dependencies = [("conversations", "0001_to_0007")]

    operations = [
        migrations.RemoveIndex(model_name="chatcompletion", name="completion_listed"),
        migrations.RemoveField(model_name="chatcompletion", name="logprobs"),
        migrations.RemoveField(model_name="chatcompletion", name="metadata"),
        migrations.RemoveField(model_name="chatcompletion", name="parameters"),
        migrations.AddField(
            model_name="chatcompletion",
            name="end_user",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.CreateModel(
            name="AttachmentPiece",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
                (
                    "attachment",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="pieces",
                        to="conversations.storedattachment",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("attachment", "number"), name="attachment_piece_number")
                ],
            },
        ),
        migrations.RunPython(split, migrations.RunPython.noop),
        migrations.RemoveField(model_name="storedattachment", name="data"),
        migrations.AddField(
            model_name="contentview", name="count", field=models.PositiveIntegerField(default=1)
        ),
        migrations.AlterField(
            model_name="contentview", name="chat_id", field=models.UUIDField(db_index=True, null=True)
        ),
        migrations.RunSQL("DROP TABLE IF EXISTS conversations_signinattempts"),  # of an earlier version
        migrations.RemoveField(model_name="allowance", name="exported_at"),
        migrations.RemoveField(model_name="allowance", name="hour"),
        migrations.RemoveField(model_name="allowance", name="hour_rebuilds"),
        migrations.CreateModel(
            name="Window",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=24)),
                ("key", models.CharField(max_length=64)),
                ("since", models.DateTimeField(db_index=True)),
                ("count", models.IntegerField(default=0)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("kind", "key"), name="window_once")],
                "default_permissions": (),
            },
        ),
    ]
