"""Models are named in the words of the pages, in permissions that were granted already, too."""

from django.db import migrations

NAMES = {
    "contextrecord": "prompt sent",
    "conversationbrief": "memory",
    "summaryrevision": "version",
}


def rename(apps, schema_editor):
    permissions = apps.get_model("auth", "Permission").objects.using(schema_editor.connection.alias)
    for model, name in NAMES.items():
        of_model = permissions.filter(content_type__app_label="memory", content_type__model=model)
        for action in ("add", "change", "delete", "view"):
            of_model.filter(codename=f"{action}_{model}").update(name=f"Can {action} {name}")


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('contenttypes', '0002_remove_content_type_name'),
        ('memory', '0012_without_comparisons'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='contextrecord',
            options={'verbose_name': 'prompt sent', 'verbose_name_plural': 'prompts sent'},
        ),
        migrations.AlterModelOptions(
            name='conversationbrief',
            options={'verbose_name': 'memory', 'verbose_name_plural': 'memory of chats'},
        ),
        migrations.AlterModelOptions(
            name='summaryrevision',
            options={'verbose_name': 'version', 'verbose_name_plural': 'versions of summaries'},
        ),
        migrations.RunPython(rename, migrations.RunPython.noop),
    ]
