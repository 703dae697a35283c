"""Turns of OpenAI's clients know the chat that has another turn in their place."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("conversations", "0017_named_end_users")]
    operations = [migrations.AddField("chatcompletion", "sibling", models.UUIDField(null=True))]
