"""Signal receivers: count a saved reply; after a migration, schedule the sweep and repair the index.

This is how memory learns of replies without `conversations` having to know about folding.
"""

from __future__ import annotations

import math
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS

from chatmemory.database import pg_functions, vector_field
from conversations.models import Message, Role
from memory import services
from memory.recall import embedding_job, index, schema

SWEEP = "memory.tasks.sweep_task"


def message_saved(
    sender: type[Message], instance: Message, created: bool, raw: bool = False, **kwargs: Any
) -> None:
    """Count a reply in the transaction that stores it, in which a fold that becomes due is queued as well."""
    if created and not raw and instance.role == Role.ASSISTANT:
        services.count_reply(instance)
        embedding_job.enqueue_chat(instance.chat_id)


def index_messages(sender: Any, using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """Index messages that have no terms yet, restore the recall index after a migration, set up pgvector."""
    if using == DEFAULT_DB_ALIAS and schema.has_terms():
        schema.fill()
        schema.ensure()
        pg_functions.ensure([index.FIND, index.SIZES, index.LOOK])
        vector_field.ensure()


def schedule_sweep(sender: Any, using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """Have django-q2 run the sweep every `SWEEP_SECONDS`, rounded up to whole minutes, its unit."""
    from django_q.models import Schedule

    if using != DEFAULT_DB_ALIAS:
        return
    Schedule.objects.update_or_create(
        name="chatmemory sweep",
        defaults={
            "func": SWEEP,
            "schedule_type": Schedule.MINUTES,
            "minutes": max(1, math.ceil(settings.SWEEP_SECONDS / 60)),
            "repeats": -1,
        },
    )
