"""What the model was sent for each reply: a plan over stored texts, and the texts that stand nowhere else."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from conversations.models import Chat, Message


class CardOutcome(models.TextChoices):
    """What became of the memory card that a reply was asked for; "" where none was."""

    NONE = ""
    KEPT = "kept"
    MISSING = "missing"
    MALFORMED = "malformed"


class ContextText(models.Model):
    """A text that was part of a prompt and stands nowhere else (instructions, sources), stored once a chat by hash."""

    chat = models.ForeignKey(Chat, on_delete=models.CASCADE, related_name="+", db_index=False)
    sha256 = models.CharField(max_length=64)
    text = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["chat", "sha256"], name="context_text_chat_hash")]

    def __str__(self) -> str:
        return self.sha256


class ContextRecord(models.Model):
    """What the model was sent for one reply, as a plan over stored texts; `prompt_hash` proves the rebuilt prompt.

    `history_tokens` are those of the whole chat before the question, as it was said: what would have been sent without
    memory (None where that is not known). `is_counted`: whether the reply is in the figures of its day.
    """

    reply = models.OneToOneField(
        Message, on_delete=models.CASCADE, primary_key=True, related_name="context_record"
    )
    revision = models.PositiveIntegerField()
    policy = models.CharField(max_length=32)
    plan = models.JSONField()
    sections = models.JSONField()
    tokens = models.PositiveIntegerField()
    budget = models.PositiveIntegerField()
    unrepresented = models.PositiveIntegerField()
    clipped = models.PositiveIntegerField()
    dropped = models.PositiveIntegerField()
    card = models.CharField(max_length=16, choices=CardOutcome.choices, blank=True, default="")
    instructions_hash = models.CharField(max_length=64, blank=True)
    turn_instructions_hash = models.CharField(max_length=64, blank=True)
    sources_hash = models.CharField(max_length=64, blank=True)
    tools_hash = models.CharField(max_length=64, blank=True, default="", db_default="")
    prompt_hash = models.CharField(max_length=64)
    history_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    is_counted = models.BooleanField(default=False, db_default=False)

    class Meta:
        indexes = [
            models.Index(fields=["reply"], name="context_not_counted", condition=Q(is_counted=False)),
        ]

    def __str__(self) -> str:
        return f"context of {self.reply_id}"
