"""The recall index, full text over stored terms: how each database keeps it, also after a migration, and how it is
asked.

Two tables have one: messages, which are looked up by their chat, and the messages of a scope, which all its chats may
quote (`memory.models.ScopedMessage`), by their scope.

PostgreSQL: an index on an expression of the row itself. SQLite: an FTS5 table that triggers write to; its row
ids combine a number for the chat or scope with the row's place in it. Rebuilding a table, as many migrations do on
SQLite, silently drops its triggers. So `ensure` checks after every migration, and refills the index if one was missing.
The sweep keeps it fast and complete (`merge`, `fill`).

Every stored term has the key of its chat or scope appended here, so that the cost of a look-up depends only on that
one; on PostgreSQL also the number of its block, because that database reads a list of matches completely. A look-up
costs about the same for any term and any length of chat, because only so many matches of a term are read: on SQLite the
newest, on PostgreSQL those of the newest blocks. Every match is checked against its chat or scope, so a message of
another is never returned. `memory.recall.question_search` asks it for a prompt.
"""

import json
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from chatmemory.text.thoughts import visible_text
from conversations.models import Message
from memory.recall.terms import stored_terms

logger = logging.getLogger(__name__)

KEY_CHARS = 6
"""Characters from the end of the id of a chat or scope, which is random: enough to separate most of one owner. Matches
are then checked by row."""
SEQ_BITS = 31
BLOCK_BITS = 13
"""Bits of a row's place within its block on PostgreSQL: a block has 8192 messages."""


@dataclass(frozen=True, slots=True)
class TermIndex:
    """The recall index of one table, by the names of what it is made of."""

    table: str
    key: str
    """The column with the id of the chat or scope in which a row is looked up."""
    place: str
    """The column with its place there."""
    live: str
    """Which rows are indexed."""
    fts: str
    numbers: str
    """SQLite's numbers for chats or scopes."""
    name: str
    """The name of PostgreSQL's index, and the prefix of SQLite's triggers."""

    # PostgreSQL

    @property
    def pg_terms(self) -> str:
        key = f"right({self.key}::text, {KEY_CHARS}) || ({self.place} >> {BLOCK_BITS})::text"
        return (
            rf"array_to_tsvector(string_to_array(replace(translate(terms, E'\n', ' '), ' ', {key} || ' ')"
            rf" || {key}, ' '))"
        )

    @property
    def pg_live(self) -> str:
        return self.live.format(row="")

    def make_index(self) -> bool:
        """Create PostgreSQL's index if it is missing; True if it was."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT to_regclass(%s)", [self.name])
            is_missing = bool(cursor.fetchone()[0] is None)
            if is_missing:
                cursor.execute(
                    f"CREATE INDEX {self.name} ON {self.table} USING gin (({self.pg_terms}))"
                    f" WITH (fastupdate = off) WHERE {self.pg_live}"
                )
        return is_missing

    # SQLite. No trigger names a table that a migration might rebuild, except its own: SQLite would refuse to rename it

    def _keyed(self, row: str) -> str:
        key = f"substr({row}{self.key}, -{KEY_CHARS})"
        return f"replace(replace({row}terms, char(10), ' '), ' ', {key} || ' ') || {key}"

    def _rowid(self, row: str) -> str:
        number = f"(SELECT id FROM {self.numbers} WHERE {self.key} = {row}{self.key})"
        return f"({number} << {SEQ_BITS}) | {row}{self.place}"

    def _add(self, row: str, *, where: str = "1") -> str:
        return (
            f"INSERT INTO {self.numbers} ({self.key}) SELECT {row}{self.key} WHERE {where}"
            f" AND NOT EXISTS (SELECT 1 FROM {self.numbers} WHERE {self.key} = {row}{self.key});"
            f" INSERT INTO {self.fts} (rowid, terms) SELECT {self._rowid(row)}, {self._keyed(row)} WHERE {where};"
        )

    def _remove(self, row: str, *, where: str = "1") -> str:
        return (
            f"INSERT INTO {self.fts} ({self.fts}, rowid, terms)"
            f" SELECT 'delete', {self._rowid(row)}, {self._keyed(row)} WHERE {where};"
        )

    def triggers(self) -> dict[str, str]:
        """SQLite's triggers by name, as they are created."""
        new, old = self.live.format(row="NEW."), self.live.format(row="OLD.")
        forget_key = (
            f"DELETE FROM {self.numbers} WHERE {self.key} = OLD.{self.key}"
            f" AND NOT EXISTS (SELECT 1 FROM {self.table} WHERE {self.key} = OLD.{self.key});"
        )
        columns = ["terms", *sorted({*re.findall(r"\{row\}(\w+)", self.live)} - {"terms"}), self.place, self.key]
        bodies = {
            "insert": f"AFTER INSERT ON {self.table} WHEN {new} BEGIN {self._add('NEW.')} END",
            "delete": f"AFTER DELETE ON {self.table} WHEN {old} BEGIN {self._remove('OLD.')} {forget_key} END",
            "update": (
                f"AFTER UPDATE OF {', '.join(columns)} ON {self.table}"
                f" WHEN ({old}) IS NOT ({new}) OR OLD.terms IS NOT NEW.terms OR OLD.{self.place} <> NEW.{self.place}"
                f" OR OLD.{self.key} <> NEW.{self.key}"
                f" BEGIN {self._remove('OLD.', where=old)} {self._add('NEW.', where=new)} END"
            ),
        }
        return {f"{self.fts}_{name}": f"CREATE TRIGGER {self.fts}_{name} {body}" for name, body in bodies.items()}

    def make_triggers(self) -> bool:
        """Create SQLite's tables and triggers anew if any is missing, and fill them; True if so."""
        triggers = self.triggers()
        expected = {
            self.fts: f"CREATE VIRTUAL TABLE {self.fts} USING fts5"
            "(terms, content = '', detail = none, columnsize = 0, tokenize = 'ascii')",
            self.numbers: f"CREATE TABLE {self.numbers}"
            f" (id integer PRIMARY KEY AUTOINCREMENT, {self.key} char(32) NOT NULL UNIQUE)",
            **triggers,
        }
        with connection.cursor() as cursor:
            places = ", ".join(["%s"] * len(expected))
            cursor.execute(f"SELECT name, sql FROM sqlite_master WHERE name IN ({places})", list(expected))
            if dict(cursor.fetchall()) == expected:
                return False
        with transaction.atomic(), connection.cursor() as cursor:
            for name in triggers:
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
            for table in (self.fts, self.numbers):
                cursor.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in expected.values():
                cursor.execute(statement)
            rows = f"FROM {self.table} m WHERE {self.live.format(row='m.')}"
            cursor.execute(f"INSERT INTO {self.numbers} ({self.key}) SELECT DISTINCT {self.key} {rows}")
            cursor.execute(
                f"INSERT INTO {self.fts} (rowid, terms) SELECT {self._rowid('m.')}, {self._keyed('m.')} {rows}"
                " ORDER BY 1"
            )
        return True

    def merge(self) -> None:
        """Merge a few segments of the index on SQLite: a look-up reads every segment, and writing creates new ones.

        Measured with 100,000 messages: 3 segments instead of 16, and a look-up of twelve terms in two fifths of the
        time.
        """
        with connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO {self.fts} ({self.fts}, rank) VALUES ('usermerge', 2)")
            cursor.execute(f"INSERT INTO {self.fts} ({self.fts}, rank) VALUES ('merge', {MERGED_PAGES})")

    # Where terms occur

    def postings(self, key: UUID, owner_id: int, tokens: Sequence[str], *, before: int, limit: int) -> list[list[int]]:
        """Return where each of `tokens` occurs in a chat or scope: places below `before`, in no order.

        A token is a hashed term, or several separated by spaces, which must all match. There are at most `limit` each;
        if there are so many, older messages may contain it, too.
        """
        if not tokens:
            return []
        keyed = key.hex[-KEY_CHARS:]
        params: dict[str, Any] = {"before": before, "limit": limit}
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                terms = [" & ".join(f"{one}{keyed}#" for one in token.split()) for token in tokens]
                cursor.execute(_POSTGRESQL[self.table], {**params, "key": key, "owner": owner_id, "terms": terms})
                cursor.nextset()
            else:
                terms = [" AND ".join(one + keyed for one in token.split()) for token in tokens]
                cursor.execute(_SQLITE[self.table], {**params, "key": key.hex, "terms": json.dumps(terms)})
            found = cursor.fetchall() or [(None,)] * len(tokens)  # in SQLite, a chat without terms has no row
        return [list(map(int, places.split(","))) if places else [] for (places,) in found]


OF_MESSAGES = TermIndex(
    table="conversations_message",
    key="chat_id",
    place="seq",
    live=(
        "{row}terms <> '' AND {row}superseded_by_id IS NULL AND {row}status IN ('complete', 'incomplete', 'cancelled')"
    ),
    fts="memory_recall",
    numbers="memory_recallchat",
    name="message_recall",
)
"""The index of the messages that are part of a turn."""
OF_SCOPES = TermIndex(
    table="memory_scopedmessage",
    key="scope_id",
    place="number",
    live="{row}terms <> ''",
    fts="memory_recall_scoped",
    numbers="memory_recallscope",
    name="scoped_message_recall",
)
INDEXES = (OF_MESSAGES, OF_SCOPES)
MESSAGES = OF_MESSAGES.table

_SQLITE = {
    one.table: (
        f"SELECT (SELECT group_concat(place) FROM (SELECT rowid & {2**SEQ_BITS - 1} AS place"
        f" FROM {one.fts} WHERE {one.fts} MATCH term.value"
        f" AND rowid > numbered.id << {SEQ_BITS} AND rowid < numbered.id << {SEQ_BITS} | %(before)s"
        f" ORDER BY rowid DESC LIMIT %(limit)s))"
        f" FROM {one.numbers} AS numbered, json_each(%(terms)s) AS term WHERE numbered.{one.key} = %(key)s"
        " ORDER BY term.key"
    )
    for one in INDEXES
}
_POSTGRESQL = {
    one.table: (
        "SET LOCAL jit = off;"
        f" SELECT (SELECT string_agg(place::text, ',') FROM (SELECT found.place"
        f" FROM generate_series(%(before)s::bigint >> {BLOCK_BITS}, 0, -1) AS block CROSS JOIN LATERAL"
        f" (SELECT {one.key} AS key, {one.place} AS place FROM {one.table}"
        f" WHERE {one.pg_terms} @@ replace(term.token, '#', block::text)::tsquery"
        f" AND {one.pg_live} AND owner_id = %(owner)s OFFSET 0) AS found"
        f" WHERE found.key = %(key)s AND found.place < %(before)s LIMIT %(limit)s) AS finds)"
        f" FROM unnest(%(terms)s::text[]) WITH ORDINALITY AS term (token, place) ORDER BY place"
    )
    for one in INDEXES
}
"""Blocks ("#" stands for their number) are searched one by one, newest first, until there are enough matches. OFFSET
keeps the planner from reading the whole chat by its other index instead. Where there are many messages, it would
overestimate the cost and compile the statement, which takes 20 times as long as to run it (measured)."""


def ensure() -> bool:
    """Create what is missing of the indexes (on SQLite all of one again); True if anything was. Fast if nothing is."""
    is_postgresql = connection.vendor == "postgresql"
    made = [one.make_index() if is_postgresql else one.make_triggers() for one in INDEXES]
    if any(made):
        logger.info("recall index made")
    return any(made)


MERGED_PAGES = 200
"""Pages of 4 kB that are written at once: other writers wait for about 50 ms."""


def merge() -> None:
    """Keep look-ups fast on SQLite."""
    if connection.vendor == "sqlite":
        for one in INDEXES:
            one.merge()


BATCH = 500
"""Messages per transaction, between which other writers get their turn."""


def fill(limit: int | None = None) -> int:
    """Store the terms of messages that have none, of about `limit` at most; return how many there were."""
    missing = Message.objects.filter(terms__isnull=True).values_list("pk", "content", "role", "owner_id")
    to_db = Message._meta.get_field("id").get_db_prep_value
    filled = 0
    while (limit is None or filled < limit) and (rows := list(missing[:BATCH])):
        values = [
            (stored_terms(visible_text(*said_by), owner), to_db(pk, connection), owner) for pk, *said_by, owner in rows
        ]
        with transaction.atomic(), connection.cursor() as cursor:
            # If the message was changed in the meantime, it already has new terms.
            cursor.executemany(
                f"UPDATE {MESSAGES} SET terms = %s WHERE id = %s AND owner_id = %s AND terms IS NULL", values
            )
        filled += len(rows)
    if filled:
        logger.info("messages analysed for recall", extra={"messages": filled})
    return filled


# Where terms occur in all chats of an owner


MAX_EVERYWHERE = 400
"""Maximum number of matches of one term in all chats of an owner."""


def owner_matches(owner_id: int, tokens: Sequence[str]) -> list[list[tuple[UUID, int]]]:
    """Return the matches of each of `tokens` in all chats of that owner, as chat and seq: at most `MAX_EVERYWHERE`."""
    is_postgresql = connection.vendor == "postgresql"
    statement, joined, suffix = (_POSTGRESQL_ALL, " & ", ":*") if is_postgresql else (_SQLITE_ALL, " AND ", "*")
    found: list[list[tuple[UUID, int]]] = []
    with connection.cursor() as cursor:
        for token in tokens:
            terms = joined.join(one + suffix for one in token.split())
            cursor.execute(statement, {"terms": terms, "owner": owner_id})
            found.append([(UUID(str(chat_id)), seq) for chat_id, seq in cursor.fetchall()])
    return found


_M = OF_MESSAGES
_LISTED = "chat.owner_id = %(owner)s AND NOT chat.temporary"
_SQLITE_ALL = (
    f"SELECT chat.id, found.number & {2**SEQ_BITS - 1} FROM"
    f" (SELECT rowid AS number FROM {_M.fts} WHERE {_M.fts} MATCH %(terms)s"
    f" ORDER BY rowid DESC LIMIT {MAX_EVERYWHERE}) AS found"
    f" JOIN {_M.numbers} AS numbered ON numbered.id = found.number >> {SEQ_BITS}"
    f" JOIN conversations_chat AS chat ON chat.id = numbered.chat_id AND {_LISTED}"
)
_POSTGRESQL_ALL = (
    f"SELECT chat.id, found.seq FROM"
    f" (SELECT chat_id, seq FROM {_M.table} WHERE {_M.pg_terms} @@ %(terms)s::tsquery AND {_M.pg_live}"
    f" AND owner_id = %(owner)s LIMIT {MAX_EVERYWHERE}) AS found"
    f" JOIN conversations_chat AS chat ON chat.id = found.chat_id AND {_LISTED}"
)
