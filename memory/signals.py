"""Receivers of Django's signals, so that `conversations` need not know about folding, nor folding about webhooks."""

from typing import Any

from django.db.models.signals import post_save
from django.dispatch import receiver

from conversations.models import Message, Role, WebhookEventType
from conversations.webhooks import outbox
from memory import turn, updates
from memory.models import SummaryRevision
from memory.recall import embeddings


@receiver(post_save, sender=Message)
def message_saved(
    sender: type[Message], instance: Message, created: bool, raw: bool = False, **kwargs: Any
) -> None:
    """Count a reply, and have its chat folded if due, in the transaction that stores it."""
    if created and not raw and instance.role == Role.ASSISTANT:
        turn.count_reply(instance)
        embeddings.enqueue_chat(instance.chat_key)


@receiver(post_save, sender=SummaryRevision)
def version_saved(
    sender: type[SummaryRevision], instance: SummaryRevision, created: bool, raw: bool = False, **kwargs: Any
) -> None:
    """Record an event for the chat's app, in the transaction that stores a version of any kind."""
    if created and not raw and instance.chat.app_id is not None:
        outbox.record(instance.chat_key, WebhookEventType.MEMORY_UPDATED, updates.figures(instance))
