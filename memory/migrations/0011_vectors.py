from django.db import migrations

import memory.vector_field


class Migration(migrations.Migration):
    """Changes no table. Where the database has pgvector, `memory.vector_field` gives the column its type afterwards."""

    dependencies = [("memory", "0010_revision_seen")]

    operations = [
        migrations.AlterField(
            model_name="turnembedding", name="vector", field=memory.vector_field.VectorField()
        ),
    ]
