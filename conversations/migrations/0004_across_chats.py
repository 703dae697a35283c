from django.db import migrations, models

APP_CHOICES = [("", "as the server is set"), ("off", "off"), ("pins", "pins"), ("all", "all")]
CHAT_CHOICES = [("off", "Off"), ("pins", "Pins"), ("all", "All")]
HELP = "What the chats of one end user share, unless that is set for the end user."


class Migration(migrations.Migration):
    dependencies = [("conversations", "0003_responses")]
    operations = [
        migrations.AddField("app", "across", models.CharField("memory across chats", blank=True, choices=APP_CHOICES, db_default="", default="", help_text=HELP, max_length=4)),
        migrations.AddField("chat", "across", models.CharField(choices=CHAT_CHOICES, db_default="all", default="all", max_length=4)),
        migrations.AddField("chat", "project", models.CharField(blank=True, db_default="", default="", max_length=100)),
        migrations.AddField("message", "muted_at", models.DateTimeField(blank=True, editable=False, null=True)),
    ]
