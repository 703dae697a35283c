"""Apps that must name an end user, whose ids are trimmed and in composed form (NFC), as they are looked up now; and turns
of OpenAI's clients that know the chat which has another turn in their place.
"""

import unicodedata

from django.db import migrations, models


def normalize_ids(apps, schema_editor):
    """An id stays as it is if another end user of the app has its normal form; then only staff reach the account."""
    rows = apps.get_model("conversations", "EndUser").objects
    for row in rows.exclude(external_id__regex="^[!-~]+$").iterator():
        normal = unicodedata.normalize("NFC", row.external_id.strip())
        if normal != row.external_id and not rows.filter(app=row.app_id, external_id=normal).exists():
            rows.filter(pk=row.pk).update(external_id=normal)


class Migration(migrations.Migration):
    dependencies = [("conversations", "0001_initial")]
    operations = [
        migrations.RunPython(normalize_ids, migrations.RunPython.noop),
        migrations.AddField("app", "requires_end_user", models.BooleanField(db_default=False, default=True, help_text="Requests about chats that name no end user are refused. Otherwise they share the app's own account.", verbose_name="must name end users")),
        migrations.AddField("chatcompletion", "sibling", models.UUIDField(null=True)),
    ]
