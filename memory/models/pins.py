"""The model of pins: statements that apply in a chat until they are removed.

Django finds it through `memory.models`.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from chatmemory.database.ids import new_id
from conversations.models import Chat, Message

MAX_CHARS = 1_000
"""The longest text of a pin, in characters; that of a longer message is cut."""
MOST_PINS = 100
"""The most pins of one chat at a time."""
BY_HAND = 2**31 - 1
"""The `start` of a pin that was not found in a message: it sorts after all that were."""


class PinKind(models.TextChoices):
    """What a pin expresses; `pinned` is anything that somebody pinned by hand."""

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
"""Authors who pin on purpose: pins found automatically never change theirs."""


class Pin(models.Model):
    """A statement that applies in a chat until it is removed, and is part of every prompt.

    `message` is the one in which it was found, or that was pinned; None: its text is stored only here. `seq` is the
    last message when it was pinned, and `start` its position in that message: the later of two pins has the higher
    ones. `ended_at`: since when it no longer applies, kept for the prompts that contained it; `ended_by` is then the
    message that replaced or revoked it, None if somebody removed it.
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
        """The sort key of pins, oldest first."""
        return self.seq, self.start, self.pk
