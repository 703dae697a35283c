"""Records of the prompt sent for each reply: a plan over stored texts, and the texts that are stored nowhere else."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from conversations.models import Chat, Message


class CardOutcome(models.TextChoices):
    """The outcome of the memory card requested from a reply; "" if none was requested."""

    NONE = ""
    KEPT = "kept"
    MISSING = "missing"
    MALFORMED = "malformed"


class ContextText(models.Model):
    """A text of a prompt that is stored nowhere else (instructions, sources), kept once per chat by its hash."""

    chat = models.ForeignKey(Chat, on_delete=models.CASCADE, related_name="+", db_index=False)
    sha256 = models.CharField(max_length=64)
    text = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["chat", "sha256"], name="context_text_chat_hash")]

    def __str__(self) -> str:
        return self.sha256


class ContextRecord(models.Model):
    """The prompt sent for one reply, as a plan over stored texts; `prompt_hash` verifies the rebuilt prompt.

    `history_tokens` is the size in tokens of all turns before the question, which would have been sent without memory
    (None if that is unknown). `is_counted`: whether the reply is in the daily figures.
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
        verbose_name, verbose_name_plural = "prompt sent", "prompts sent"
        indexes = [
            models.Index(fields=["reply"], name="context_not_counted", condition=Q(is_counted=False)),
        ]

    def __str__(self) -> str:
        return f"context of {self.reply_id}"
