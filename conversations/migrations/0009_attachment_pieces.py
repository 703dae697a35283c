import django.db.models.deletion
from django.db import migrations, models

PIECE_BYTES = 192 * 1024


def split(apps, schema_editor):
    """Copy the bytes of every attachment into pieces, within the database: no image passes through this process."""
    number, made = 0, 1
    with schema_editor.connection.cursor() as cursor:
        while made:
            cursor.execute(
                "INSERT INTO conversations_attachmentpiece (attachment_id, number, data) "
                "SELECT id, %s, substr(data, %s, %s) FROM conversations_storedattachment WHERE size > %s",
                [number, number * PIECE_BYTES + 1, PIECE_BYTES, number * PIECE_BYTES],
            )
            made = cursor.rowcount
            number += 1
        if schema_editor.connection.vendor == "postgresql":
            # Otherwise the table cannot be altered in this transaction: the new foreign keys are still to be checked.
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


class Migration(migrations.Migration):

    dependencies = [
        ("conversations", "0008_completions_without_lists"),
    ]

    operations = [
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
    ]
