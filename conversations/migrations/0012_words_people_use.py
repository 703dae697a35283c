"""Models are named in the words of the pages, in permissions that were granted already, too."""

from django.db import migrations

NAMES = {
    "activereply": "reply being written",
    "allowance": "limits",
    "contentview": "audit log entry",
}


def rename(apps, schema_editor):
    permissions = apps.get_model("auth", "Permission").objects.using(schema_editor.connection.alias)
    for model, name in NAMES.items():
        of_model = permissions.filter(content_type__app_label="conversations", content_type__model=model)
        for action in ("add", "change", "delete", "view"):
            of_model.filter(codename=f"{action}_{model}").update(name=f"Can {action} {name}")


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('contenttypes', '0002_remove_content_type_name'),
        ('conversations', '0011_content_view_count'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='activereply',
            options={'verbose_name': 'reply being written', 'verbose_name_plural': 'replies being written'},
        ),
        migrations.AlterModelOptions(
            name='allowance',
            options={'verbose_name': 'limits', 'verbose_name_plural': 'limits'},
        ),
        migrations.AlterModelOptions(
            name='contentview',
            options={'verbose_name': 'audit log entry', 'verbose_name_plural': 'audit log'},
        ),
        migrations.RunPython(rename, migrations.RunPython.noop),
    ]
