from django.db import migrations

import chatmemory.database.vector_field


class Migration(migrations.Migration):
    """Changes no table. Where the database has pgvector, `chatmemory.database.vector_field` gives the column its type afterwards."""

    dependencies = [("memory", "0010_revision_seen")]

    operations = [
        migrations.AlterField(
            model_name="turnembedding", name="vector", field=chatmemory.database.vector_field.VectorField()
        ),
    ]
