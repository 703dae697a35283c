"""Messages that were stored before there was a recall index, or by who does not know of it: analysed batch by batch."""

from __future__ import annotations

import logging

from django.db import connection, transaction

from conversations.models import Message
from memory.stored_terms import stored_terms

logger = logging.getLogger(__name__)

BATCH = 500
"""Messages of one transaction: other writers come in between."""


def fill(most: int | None = None) -> int:
    """Give messages that have none their terms, at most about so many; how many there were."""
    filled = 0
    while (most is None or filled < most) and (batch := _fill_batch()):
        filled += batch
    if filled:
        logger.info("messages analysed for recall", extra={"messages": filled})
    return filled


def _fill_batch() -> int:
    missing = Message.objects.filter(terms__isnull=True)
    rows = list(missing.values_list("pk", "content", "chat__owner_id")[:BATCH])
    to_db = Message._meta.get_field("id").get_db_prep_value
    values = [(stored_terms(text, owner), to_db(pk, connection)) for pk, text, owner in rows]
    if values:
        table = connection.ops.quote_name(Message._meta.db_table)
        with transaction.atomic(), connection.cursor() as cursor:
            # Who changed the message in between has given it new terms, too.
            cursor.executemany(f"UPDATE {table} SET terms = %s WHERE id = %s AND terms IS NULL", values)  # noqa: S608  # our own table's name
    return len(values)
