"""When each chat's newest message was stored, and what keeps a chat or lets it go."""

import django.utils.timezone
from django.db import migrations, models
from django.db.models import F
from django.db.models.functions import Now


def fill(apps, schema_editor):
    apps.get_model("conversations", "Chat").objects.update(last_message_at=F("updated_at"))


class Migration(migrations.Migration):

    dependencies = [("conversations", "0014_apps_and_end_users")]

    operations = [
        migrations.AddField(
            model_name="chat",
            name="last_message_at",
            field=models.DateTimeField(
                db_default=Now(), default=django.utils.timezone.now, editable=False
            ),
        ),
        migrations.AddField(
            model_name="chat", name="pinned", field=models.BooleanField(db_default=False, default=False)
        ),
        migrations.AddField(
            model_name="chat", name="retain_days", field=models.PositiveIntegerField(blank=True, null=True)
        ),
        migrations.AddField(
            model_name="chat",
            name="temporary",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
