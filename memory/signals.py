"""Signal receivers: count a saved reply; after a migration, repair the index.

This is how memory learns of replies without `conversations` having to know about folding.
"""

from __future__ import annotations

from typing import Any

from django.db import DEFAULT_DB_ALIAS

from chatmemory.database import vector_field
from conversations.models import Message, Role
from memory import turn
from memory.recall import embeddings, schema


def message_saved(
    sender: type[Message], instance: Message, created: bool, raw: bool = False, **kwargs: Any
) -> None:
    """Count a reply in the transaction that stores it, in which a fold that becomes due is queued as well."""
    if created and not raw and instance.role == Role.ASSISTANT:
        turn.count_reply(instance)
        embeddings.enqueue_chat(instance.chat_id)


def index_messages(sender: Any, using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """Index messages that have no terms yet, restore the recall index after a migration, set up pgvector."""
    if using == DEFAULT_DB_ALIAS and schema.has_terms():
        schema.fill()
        schema.ensure()
        vector_field.ensure()
