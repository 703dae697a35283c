"""Models used only by workers: their signs of life, which are removed with them, and the vectors that they compute.

Django finds them through `memory.models`, from which other modules import them.
"""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from chatmemory.database.vector_field import VectorField
from conversations.models import Chat


class Worker(models.Model):
    """A worker, by the name under which it holds leases, and when it was last alive. Removed when it ends."""

    name = models.CharField(max_length=100, primary_key=True)
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()  # shown to nobody

    def __str__(self) -> str:
        return self.name


class ChatEmbeddings(models.Model):
    """Which messages of a chat have vectors, of which model, and what they cost. Only if embeddings are on.

    Messages up to `through_seq` have vectors. Work on it counts as an attempt before it begins, and is not repeated
    before `next_attempt_at`: so two workers do not do the same work, and a failing endpoint is not called again at
    once. `queued_at`: since when a task for it has been waiting in the queue.
    """

    chat = models.OneToOneField(Chat, on_delete=models.CASCADE, primary_key=True, related_name="embedded")
    model = models.CharField(max_length=128)
    dimensions = models.PositiveIntegerField()
    through_seq = models.PositiveIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    tokens = models.PositiveBigIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=16, decimal_places=9, default=0)
    queued_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ()  # shown to nobody

    def __str__(self) -> str:
        return f"embeddings of {self.chat_id}"


class MessageEmbedding(models.Model):
    """The vector of a message, by its seq; its length is one.

    It is of the model named in the chat's `ChatEmbeddings`. It is derived from the message's text, and removed with
    it.
    """

    chat = models.ForeignKey(Chat, on_delete=models.CASCADE, related_name="+", db_index=False)
    seq = models.PositiveIntegerField()
    vector = VectorField()

    class Meta:
        default_permissions = ()  # as above
        constraints = [models.UniqueConstraint(fields=["chat", "seq"], name="embedding_chat_seq")]

    def __str__(self) -> str:
        return f"embedding {self.seq} of {self.chat_id}"
