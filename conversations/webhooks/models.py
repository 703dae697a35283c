"""Events that apps are told of."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from conversations.accounts.models import App


class WebhookEventType(models.TextChoices):
    MEMORY_UPDATED = "memory.updated"
    MEMORY_FAILED = "memory.failed"
    REPLY_COMPLETED = "reply.completed"
    CHAT_DELETED = "chat.deleted"


class WebhookState(models.TextChoices):
    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given up"


class WebhookEvent(models.Model):
    """Something that an app is to be told, stored with the fact itself: ids and figures, no text.

    Those of a chat are delivered in the order of their keys. `not_before` is when the next attempt may begin: while one
    is made, when it is repeated if its worker is gone.
    """

    event_id = models.UUIDField()
    """Its id for receivers, the same in each attempt."""
    app = models.ForeignKey(App, on_delete=models.CASCADE, related_name="+", db_index=False)
    chat_id = models.UUIDField()
    """The chat, which may be gone."""
    end_user = models.CharField(max_length=200, null=True)
    type = models.CharField(max_length=32, choices=WebhookEventType.choices)
    figures = models.JSONField()
    created_at = models.DateTimeField(db_default=Now())
    state = models.CharField(
        max_length=16,
        choices=WebhookState.choices,
        default=WebhookState.WAITING,
        db_default=WebhookState.WAITING,
    )
    attempts = models.PositiveIntegerField(default=0, db_default=0)
    not_before = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    error = models.CharField("last failure", max_length=200, blank=True, default="", db_default="")

    class Meta:
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["app", "state", "not_before", "id"], name="webhook_event_due"),
            models.Index(fields=["chat_id", "id"], name="webhook_event_next", condition=Q(state="waiting")),
            models.Index(fields=["-id"], name="webhook_event_given_up", condition=Q(state="given up")),
            models.Index(fields=["ended_at"], name="webhook_event_ended", condition=Q(ended_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.event_id}"
