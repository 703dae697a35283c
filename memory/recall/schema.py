"""The full-text index over messages: how each database keeps it in step with the table, whoever writes to it.

PostgreSQL: an index on an expression of the message's own row. SQLite: an FTS5 table that triggers write to; its row
ids combine a number for the chat with the message's seq. Rebuilding a table, as many migrations do on SQLite,
silently drops its triggers. So `ensure` checks after every migration, and refills the index if one was missing.

Every stored term has the key of its chat appended here, so that the cost of a look-up depends only on its own chat;
on PostgreSQL also the number of its block, because that database reads a list of matches completely.
`memory.recall.index` queries the index. The sweep keeps it fast and complete (`merge`, `fill`).
"""

import logging
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, transaction

from chatmemory.database import vector_field
from conversations.models import Message
from memory.recall.terms import stored_terms

logger = logging.getLogger(__name__)

MESSAGES = "conversations_message"
FTS, CHATS = "memory_recall", "memory_recallchat"
INDEX = "message_recall"

KEY_CHARS = 6
"""Characters from the end of a chat's id, which is random: enough to separate most chats of one owner. Matches are
then checked by row."""
SEQ_BITS = 31
BLOCK_BITS = 13
"""Bits of a seq within its block on PostgreSQL: a block has 8192 messages."""

LIVE = "{row}terms <> '' AND {row}superseded_by_id IS NULL AND {row}status IN ('complete', 'incomplete', 'cancelled')"
"""Which messages are indexed: those that are part of a turn."""

_PG_KEY = f"right(chat_id::text, {KEY_CHARS}) || (seq >> {BLOCK_BITS})::text"
PG_TERMS = (
    rf"array_to_tsvector(string_to_array(replace(translate(terms, E'\n', ' '), ' ', {_PG_KEY} || ' ')"
    rf" || {_PG_KEY}, ' '))"
)
PG_LIVE = LIVE.format(row="")
_PG_INDEX = (
    f"CREATE INDEX {INDEX} ON {MESSAGES} USING gin (({PG_TERMS})) WITH (fastupdate = off) WHERE {PG_LIVE}"
)

_FTS = f"CREATE VIRTUAL TABLE {FTS} USING fts5(terms, content = '', detail = none, columnsize = 0, tokenize = 'ascii')"
_CHATS = f"CREATE TABLE {CHATS} (id integer PRIMARY KEY AUTOINCREMENT, chat_id char(32) NOT NULL UNIQUE)"


def _keyed(row: str) -> str:
    key = f"substr({row}chat_id, -{KEY_CHARS})"
    return f"replace(replace({row}terms, char(10), ' '), ' ', {key} || ' ') || {key}"


def _rowid(row: str) -> str:
    return f"((SELECT id FROM {CHATS} WHERE chat_id = {row}chat_id) << {SEQ_BITS}) | {row}seq"


def _add(row: str, *, where: str = "1") -> str:
    return (
        f"INSERT INTO {CHATS} (chat_id) SELECT {row}chat_id WHERE {where}"
        f" AND NOT EXISTS (SELECT 1 FROM {CHATS} WHERE chat_id = {row}chat_id);"
        f" INSERT INTO {FTS} (rowid, terms) SELECT {_rowid(row)}, {_keyed(row)} WHERE {where};"
    )


def _remove(row: str, *, where: str = "1") -> str:
    return f"INSERT INTO {FTS} ({FTS}, rowid, terms) SELECT 'delete', {_rowid(row)}, {_keyed(row)} WHERE {where};"


_NEW, _OLD = LIVE.format(row="NEW."), LIVE.format(row="OLD.")
_FORGET_CHAT = (
    f"DELETE FROM {CHATS} WHERE chat_id = OLD.chat_id"
    f" AND NOT EXISTS (SELECT 1 FROM {MESSAGES} WHERE chat_id = OLD.chat_id);"
)
TRIGGERS = {
    "memory_recall_insert": f"AFTER INSERT ON {MESSAGES} WHEN {_NEW} BEGIN {_add('NEW.')} END",
    "memory_recall_delete": (
        f"AFTER DELETE ON {MESSAGES} WHEN {_OLD} BEGIN {_remove('OLD.')} {_FORGET_CHAT} END"
    ),
    "memory_recall_update": (
        f"AFTER UPDATE OF terms, status, superseded_by_id, seq, chat_id ON {MESSAGES}"
        f" WHEN ({_OLD}) IS NOT ({_NEW}) OR OLD.terms IS NOT NEW.terms OR OLD.seq <> NEW.seq"
        f" OR OLD.chat_id <> NEW.chat_id"
        f" BEGIN {_remove('OLD.', where=_OLD)} {_add('NEW.', where=_NEW)} END"
    ),
}
"""No trigger names a table that a migration might rebuild, except its own: SQLite would refuse to rename that table."""


def index_messages(sender: Any, using: str = DEFAULT_DB_ALIAS, **kwargs: Any) -> None:
    """After a migration: index messages that have no terms yet, restore the index, set up pgvector."""
    if using == DEFAULT_DB_ALIAS and has_terms():
        fill()
        ensure()
        vector_field.ensure()


def has_terms() -> bool:
    """Whether messages can have terms: not if the database was migrated back to before there was an index."""
    with connection.cursor() as cursor:
        columns = connection.introspection.get_table_description(cursor, MESSAGES)
    return any(column.name == "terms" for column in columns)


def ensure() -> bool:
    """Create what is missing of the index (on SQLite all of it again); True if anything was. Fast if nothing is."""
    is_missing = _make_index() if connection.vendor == "postgresql" else _make_triggers()
    if is_missing:
        logger.info("recall index made")
    return is_missing


def _make_index() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s)", [INDEX])
        is_missing = cursor.fetchone()[0] is None
        if is_missing:
            cursor.execute(_PG_INDEX)
    return is_missing


def _make_triggers() -> bool:
    wanted = {name: f"CREATE TRIGGER {name} {body}" for name, body in TRIGGERS.items()}
    made = {FTS: _FTS, CHATS: _CHATS, **wanted}
    with connection.cursor() as cursor:
        places = ", ".join(["%s"] * len(made))
        cursor.execute(f"SELECT name, sql FROM sqlite_master WHERE name IN ({places})", list(made))
        if dict(cursor.fetchall()) == made:
            return False
    with transaction.atomic(), connection.cursor() as cursor:
        for name in wanted:
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        for table in (FTS, CHATS):
            cursor.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in made.values():
            cursor.execute(statement)
        live = LIVE.format(row="m.")
        cursor.execute(
            f"INSERT INTO {CHATS} (chat_id) SELECT DISTINCT chat_id FROM {MESSAGES} m WHERE {live}"
        )
        cursor.execute(
            f"INSERT INTO {FTS} (rowid, terms) SELECT {_rowid('m.')}, {_keyed('m.')} FROM {MESSAGES} m"
            f" WHERE {live} ORDER BY 1"
        )
    return True


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
    missing = Message.objects.filter(terms__isnull=True).values_list("pk", "content", "chat__owner_id")
    to_db = Message._meta.get_field("id").get_db_prep_value
    filled = 0
    while (most is None or filled < most) and (rows := list(missing[:BATCH])):
        values = [(stored_terms(text, owner), to_db(pk, connection)) for pk, text, owner in rows]
        with transaction.atomic(), connection.cursor() as cursor:
            # If the message was changed in the meantime, it already has new terms.
            cursor.executemany(f"UPDATE {MESSAGES} SET terms = %s WHERE id = %s AND terms IS NULL", values)
        filled += len(rows)
    if filled:
        logger.info("messages analysed for recall", extra={"messages": filled})
    return filled
