from django.db import migrations

_VECTORS = "DELETE FROM memory_messageembedding"
_PROGRESS = "UPDATE memory_chatembeddings SET through_seq = 0"


class Migration(migrations.Migration):
    """A vector was of a turn, and becomes one of a message: those that there are go either way, and are made anew."""

    dependencies = [("memory", "0011_vectors")]

    operations = [
        migrations.RenameModel("TurnEmbedding", "MessageEmbedding"),
        migrations.RunSQL(_VECTORS, _VECTORS),
        migrations.RunSQL(_PROGRESS, _PROGRESS),
    ]
