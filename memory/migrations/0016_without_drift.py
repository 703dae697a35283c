"""How far the memory before a rebuild had drifted is no longer measured."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('memory', '0015_counted_from_rows'),
    ]

    operations = [
        migrations.RemoveField(
            model_name='summaryrevision',
            name='drift',
        ),
    ]
