"""Unfolded turns are counted from their messages; a pause is known by the last message before it."""

from django.db import migrations, models
from django.db.models import Max


def note_last_message(apps, schema_editor):
    alias = schema_editor.connection.alias
    messages = apps.get_model("conversations", "Message").objects.using(alias)
    briefs = apps.get_model("memory", "ConversationBrief").objects.using(alias)
    for brief in briefs.filter(paused_at__isnull=False).only("pk", "paused_at").iterator():
        before = messages.filter(chat_id=brief.pk, completed_at__lte=brief.paused_at)
        brief.paused_seq = before.aggregate(last=Max("seq"))["last"] or 0
        brief.save(update_fields=["paused_seq"])


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0012_words_people_use'),
        ('memory', '0014_names_of_daily_figures'),
    ]

    operations = [
        migrations.AddField(
            model_name='conversationbrief',
            name='paused_seq',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.RunPython(note_last_message, migrations.RunPython.noop),
        migrations.RemoveField(model_name='conversationbrief', name='paused_with'),
        migrations.RemoveField(model_name='conversationbrief', name='unfolded_turns'),
        migrations.RemoveField(model_name='conversationbrief', name='unfolded_tokens'),
        migrations.RemoveField(model_name='conversationbrief', name='unfolded_line_tokens'),
    ]
