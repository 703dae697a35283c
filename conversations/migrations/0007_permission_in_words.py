"""The permission to read content has a shorter name, also where it was granted already."""

from django.db import migrations


def rename(apps, schema_editor):
    permissions = apps.get_model("auth", "Permission").objects.using(schema_editor.connection.alias)
    found = permissions.filter(codename="view_content", content_type__app_label="conversations")
    found.update(name="Can read messages and memory")


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('contenttypes', '0002_remove_content_type_name'),
        ('conversations', '0006_logprobs'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='chat',
            options={'permissions': [('view_content', 'Can read messages and memory')]},
        ),
        migrations.RunPython(rename, migrations.RunPython.noop),
    ]
