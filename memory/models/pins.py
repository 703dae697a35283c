"""Pins: what holds in a chat until it is taken back, in rows. Django finds them through `memory.models`."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from chatmemory.database.ids import new_id
from conversations.models import Chat, Message

MAX_CHARS = 1_000
"""Of a pin's text; that of a longer message is cut."""
MOST_PINS = 100
"""Of one chat, at a time."""
BY_HAND = 2**31 - 1
"""The place in its message of a pin that was not found in one: after all that were."""


class PinKind(models.TextChoices):
    """What a pin says; "pinned" is whatever somebody pinned."""

    INSTRUCTION = "instruction"
    PREFERENCE = "preference"
    IDENTITY = "identity"
    REMEMBER = "remember"
    PINNED = "pinned"


class PinnedBy(models.TextChoices):
    USER = "user"
    STAFF = "staff"
    RULE = "rule"
    SUMMARIZER = "summarizer"


PEOPLE = (PinnedBy.USER, PinnedBy.STAFF)
"""Who pins on purpose: nothing that is found changes what they pinned."""


class Pin(models.Model):
    """Something that holds in a chat until it is taken back, and stands in every prompt.

    `message` is the one that it was found in, or that was pinned; None: its text stands nowhere else. `seq` is the last
    message when it was pinned, and `start` its place in that: of two pins the later has the higher. `ended_at`: since
    when it holds no more, kept for the prompts that had it; `ended_by` is then the message that replaced it or took it
    back, None where somebody removed it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    chat = models.ForeignKey(Chat, on_delete=models.CASCADE, related_name="pins")
    text = models.TextField()
    kind = models.CharField(max_length=16, choices=PinKind.choices, default=PinKind.PINNED)
    by = models.CharField(max_length=16, choices=PinnedBy.choices)
    pinned_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    message = models.ForeignKey(
        Message, on_delete=models.DO_NOTHING, null=True, blank=True, related_name="+", db_index=False
    )
    seq = models.PositiveIntegerField()
    start = models.PositiveIntegerField(default=BY_HAND)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.ForeignKey(
        Message, on_delete=models.DO_NOTHING, null=True, blank=True, related_name="+", db_index=False
    )

    class Meta:
        default_permissions = ("view", "delete")
        # Every foreign key has an index: see `conversations.models`.
        indexes = [
            models.Index(fields=["message"], name="pin_message", condition=Q(message__isnull=False)),
            models.Index(fields=["ended_by"], name="pin_ended_by", condition=Q(ended_by__isnull=False)),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=PinKind.values), name="pin_kind_known"),
            models.CheckConstraint(condition=Q(by__in=PinnedBy.values), name="pin_by_known"),
            models.CheckConstraint(
                condition=Q(ended_by__isnull=True) | Q(ended_at__isnull=False), name="pin_ended_at_known"
            ),
        ]

    def __str__(self) -> str:
        return f"pin {self.pk}"

    @property
    def place(self) -> tuple[Any, ...]:
        """By which pins are in order, the oldest first."""
        return self.seq, self.start, self.pk
