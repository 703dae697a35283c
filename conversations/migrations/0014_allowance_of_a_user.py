"""A user's limits can be read together with the user. Changes nothing in the database."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('conversations', '0008_to_0013'),
    ]

    operations = [
        migrations.AlterField(
            model_name='allowance',
            name='user',
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='allowance',
                serialize=False, to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
