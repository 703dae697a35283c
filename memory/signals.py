"""Receivers of Django's signals, so that `conversations` need not know about folding, nor folding about webhooks."""

from typing import Any

from django.db import transaction
from django.db.models.signals import post_save
from django.dispatch import receiver

from conversations.models import Message, Role
from conversations.webhooks import outbox
from conversations.webhooks.models import WebhookEventType
from memory import events
from memory.across import scope_index
from memory.briefs import lock_brief
from memory.folding import leases
from memory.models import SummaryRevision
from memory.recall import embeddings


@receiver(post_save, sender=Message)
def message_saved(sender: type[Message], instance: Message, created: bool, raw: bool = False, **kwargs: Any) -> None:
    """Have the chat of a new reply folded if that is due.

    `finish` needs no signal: it stores its reply by `bulk_create`, and tells `turn_finished` what it knows.
    """
    if created and not raw and instance.role == Role.ASSISTANT:
        with transaction.atomic():
            leases.save(lock_brief(instance.chat_key))
            embeddings.enqueue_chat(instance.chat_key)
            scope_index.have_filled(instance.chat)


@receiver(post_save, sender=SummaryRevision)
def version_saved(
    sender: type[SummaryRevision], instance: SummaryRevision, created: bool, raw: bool = False, **kwargs: Any
) -> None:
    """Record an event for the chat's app, in the transaction that stores a version of any kind."""
    if created and not raw and instance.chat.app_id is not None:
        outbox.record(instance.chat_key, WebhookEventType.MEMORY_UPDATED, events.figures(instance))
