"""What migrations 0010 to 0017 did, in one."""

from django.db import migrations, models
from django.db.models import Max
from django.db.models.functions import Now

NAMES = {
    "activereply": "reply being written",
    "allowance": "limits",
    "contentview": "audit log entry",
    "contextrecord": "prompt sent",
    "conversationbrief": "memory",
    "summaryrevision": "version",
}
DROPPED = ["workerprocess", "watch", "comparison"]
"""Tables that only the database of an earlier version has."""


def rename_permissions(apps, schema_editor):
    """Models of both apps are named in the words of the pages, in permissions that were granted already, too."""
    permissions = apps.get_model("auth", "Permission").objects.using(schema_editor.connection.alias)
    for model, name in NAMES.items():
        for action in ("add", "change", "delete", "view"):
            permissions.filter(codename=f"{action}_{model}").update(name=f"Can {action} {name}")


def note_last_message(apps, schema_editor):
    """A pause is known by the last message before it."""
    alias = schema_editor.connection.alias
    messages = apps.get_model("conversations", "Message").objects.using(alias)
    briefs = apps.get_model("memory", "ConversationBrief").objects.using(alias)
    for brief in briefs.filter(paused_at__isnull=False).only("pk", "paused_at").iterator():
        before = messages.filter(chat_id=brief.pk, completed_at__lte=brief.paused_at)
        brief.paused_seq = before.aggregate(last=Max("seq"))["last"] or 0
        brief.save(update_fields=["paused_seq"])


class Migration(migrations.Migration):

    replaces = [
        ("memory", "0010_summarizer_instructions"),
        ("memory", "0011_workers_in_threads"),
        ("memory", "0012_without_comparisons"),
        ("memory", "0013_words_people_use"),
        ("memory", "0014_names_of_daily_figures"),
        ("memory", "0015_counted_from_rows"),
        ("memory", "0016_without_drift"),
        ("memory", "0017_columns_nobody_read"),
    ]

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("conversations", "0008_to_0013"),
        ("memory", "0001_to_0009"),
    ]

    operations = [
        migrations.AddField(
            model_name="summaryrevision",
            name="focus",
            field=models.CharField(blank=True, db_default="", default="", max_length=500),
        ),
        migrations.AddField(
            model_name="summaryrevision",
            name="custom_instructions",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.RemoveField(model_name="summaryrevision", name="drift"),
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("name", models.CharField(max_length=100, primary_key=True, serialize=False)),
                ("seen_at", models.DateTimeField(db_default=Now())),
            ],
            options={"default_permissions": ()},
        ),
        migrations.RunSQL([f"DROP TABLE IF EXISTS memory_{table}" for table in DROPPED]),
        migrations.RunPython(rename_permissions, migrations.RunPython.noop),
        migrations.AddField(
            model_name="conversationbrief",
            name="paused_seq",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.RunPython(note_last_message, migrations.RunPython.noop),
        migrations.RemoveField(model_name="conversationbrief", name="paused_with"),
        migrations.RemoveField(model_name="conversationbrief", name="unfolded_turns"),
        migrations.RemoveField(model_name="conversationbrief", name="unfolded_tokens"),
        migrations.RemoveField(model_name="conversationbrief", name="unfolded_line_tokens"),
        migrations.RemoveIndex(model_name="conversationbrief", name="brief_kept"),
        migrations.RemoveField(model_name="foldday", name="tokens_after"),
        migrations.RemoveField(model_name="foldday", name="tokens_before"),
        migrations.RemoveField(model_name="usageday", name="saved_usd"),
    ]
