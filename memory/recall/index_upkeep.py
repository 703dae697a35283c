"""Keep the full-text index fast and complete: merge its segments, and analyse messages that have no terms yet.

The sweep does some of it each time; `manage.py migrate` analyses all messages.
"""

from __future__ import annotations

import logging

from django.db import connection, transaction

from conversations.models import Message
from memory.recall.schema import FTS
from memory.recall.terms import stored_terms

logger = logging.getLogger(__name__)

MERGED_PAGES = 200
"""Pages of 4 kB that are written at once: other writers wait for about 50 ms."""


def merge() -> None:
    """Merge a few segments of the index on SQLite: a look-up reads every segment, and writing creates new ones.

    Measured with 100,000 messages: 3 segments instead of 16, and a look-up of twelve terms in two fifths of the time.
    """
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {FTS} ({FTS}, rank) VALUES ('usermerge', 2)")
        cursor.execute(f"INSERT INTO {FTS} ({FTS}, rank) VALUES ('merge', {MERGED_PAGES})")


BATCH = 500
"""Messages per transaction, between which other writers get their turn."""


def fill(most: int | None = None) -> int:
    """Store the terms of messages that have none, of about `most` at most; return how many there were."""
    filled = 0
    while (most is None or filled < most) and (batch := _fill_batch()):
        filled += batch
    if filled:
        logger.info("messages analysed for recall", extra={"messages": filled})
    return filled


def _fill_batch() -> int:
    missing = Message.objects.filter(terms__isnull=True)
    rows = list(missing.values_list("pk", "content", "chat__owner_id", "role")[:BATCH])
    to_db = Message._meta.get_field("id").get_db_prep_value
    values = [(stored_terms(text, owner), to_db(pk, connection)) for pk, text, owner, role in rows]
    if values:
        table = connection.ops.quote_name(Message._meta.db_table)
        with transaction.atomic(), connection.cursor() as cursor:
            # If the message was changed in the meantime, it already has new terms.
            cursor.executemany(
                f"UPDATE {table} SET terms = %s WHERE id = %s AND terms IS NULL", values
            )  # our own table's name
    return len(values)
