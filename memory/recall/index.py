"""What the recall index knows: in which messages of a chat a term stands, and what those messages are.

One interface to both databases. A look-up costs much the same however common the term is and however long the chat,
because only so many finds of a term are read: on SQLite the newest, on PostgreSQL those of the newest blocks. Every
find is held against its chat, so no other chat's message can be one.

Of the finds, first who said them and how long they are; then, of those that are worth it, in one select their stored
terms, and the text of all but long ones. Most of what is looked at is short, and most of what is shown is short: so
only the long messages that are shown after all take one more select. What finds are worth is decided in
`memory.recall.ranking`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection, connections

from chatmemory.database import statements
from chatmemory.database.pg_functions import Function
from conversations.models import SPOKEN, Message, Role
from memory.recall.excerpts import RecalledMessage
from memory.recall.ranking import Indexed, Size
from memory.recall.schema import BLOCK_BITS, CHATS, FTS, KEY_CHARS, MESSAGES, PG_LIVE, PG_TERMS, SEQ_BITS

SHORT_CHARS = 1500
"""Up to which a text comes along unasked. PostgreSQL keeps longer ones (from 2 kB) outside of the row."""

_MESSAGES = Message._meta.db_table
_STATUSES = ", ".join(f"'{status}'" for status in SPOKEN)
_LIVE = f"status IN ({_STATUSES}) AND superseded_by_id IS NULL AND token_count > 0"
_SHORT = f"CASE WHEN length(content) <= {SHORT_CHARS} THEN content END"


@dataclass(frozen=True, slots=True)
class _Sql:
    """Selects of our own, with one parameter however many seqs: as querysets they took two thirds longer."""

    look: str
    whole: str
    sizes: str

    @classmethod
    def of(cls, id_and_day: str, among: str) -> _Sql:
        source = f"FROM {_MESSAGES} WHERE chat_id = %s AND seq {among}"
        return cls(
            look=f"SELECT seq, role, token_count, terms, {_SHORT}, {id_and_day} {source} AND {_LIVE} ORDER BY seq",
            whole=f"SELECT seq, role, token_count, NULL, content, {id_and_day} {source} ORDER BY seq",
            sizes=f"SELECT seq, role, token_count {source} AND {_LIVE}",
        )


_SQLITE = _Sql.of("id, substr(created_at, 1, 10)", "IN (SELECT value FROM json_each(%s))")
_PLAIN = _Sql.of("id::text, (created_at AT TIME ZONE 'UTC')::date::text", "= ANY(%s)")
LOOK = Function(
    "memory_recall_look",
    "uuid, integer[]",
    "TABLE (place integer, speaker varchar, tokens integer, has text, says text, key text, day text)",
    _PLAIN.look.replace("%s", "$1", 1).replace("%s", "$2"),
)
SIZES = Function(
    "memory_recall_sizes",
    "uuid, integer[]",
    "TABLE (place integer, speaker varchar, tokens integer)",
    _PLAIN.sizes.replace("%s", "$1", 1).replace("%s", "$2"),
)
_POSTGRESQL = _Sql(f"SELECT * FROM {LOOK.name}(%s, %s)", _PLAIN.whole, f"SELECT * FROM {SIZES.name}(%s, %s)")


def _sql() -> _Sql:
    return _POSTGRESQL if connection.vendor == "postgresql" else _SQLITE


_Row = tuple[int, str, int, str | None, str | None, str, str]
"""Its seq, role, tokens, terms, text (None: a long one), id and day (UTC)."""


@dataclass(frozen=True, slots=True)
class Looked:
    """Messages as they were read, by seq."""

    chat_id: UUID
    rows: Mapping[int, _Row] = field(default_factory=dict)

    def indexed(self) -> dict[int, Indexed]:
        """All of them as the index holds them, in order."""
        user = Role.USER.value
        return {
            seq: Indexed(seq, role == user, tokens, tuple(terms.split("\n")) if terms else ("",), day)
            for seq, role, tokens, terms, _, _, day in self.rows.values()
        }

    def said(self, seqs: Collection[int]) -> dict[int, RecalledMessage]:
        """What these of them say. Asks for the long ones."""
        short = {seq: _said(row) for seq in seqs if (row := self.rows[seq])[4] is not None}
        return short | quoted(self.chat_id, [seq for seq in seqs if seq not in short])

    def __or__(self, more: Looked) -> Looked:
        """These and more of the same chat."""
        return Looked(self.chat_id, {**self.rows, **more.rows})


def sizes(chat_id: UUID, seqs: Iterable[int]) -> dict[int, Size]:
    """Who said the live ones of these messages, and how long they are, by seq."""
    user = Role.USER.value
    return {seq: Size(role == user, tokens) for seq, role, tokens in _select(_sql().sizes, chat_id, seqs)}


def look(chat_id: UUID, seqs: Iterable[int]) -> Looked:
    """The live ones of these messages. Others are passed over, as if they were not there."""
    return Looked(chat_id, {row[0]: row for row in _select(_sql().look, chat_id, seqs)})


def quoted(chat_id: UUID, seqs: Iterable[int]) -> dict[int, RecalledMessage]:
    """What these messages say, by seq. A superseded one as well: a prompt of then is shown as it was."""
    return {row[0]: _said(row) for row in _select(_sql().whole, chat_id, seqs)}


def _said(row: _Row) -> RecalledMessage:
    seq, role, tokens, _, text, key, day = row
    return RecalledMessage(
        UUID(key), seq, role == Role.USER, day, text or "", tokens, is_output=role == Role.TOOL
    )


def _select(statement: str, chat_id: UUID, seqs: Iterable[int]) -> list[Any]:
    wanted = sorted(set(seqs))
    if not wanted:
        return []
    listed = ",".join(map(str, wanted))
    params = (
        [str(chat_id), f"{{{listed}}}"] if connection.vendor == "postgresql" else [chat_id.hex, f"[{listed}]"]
    )
    return statements.fetch(connections[DEFAULT_DB_ALIAS], statement, params)


FINDS, FEWEST, MOST = 400, 40, 120
"""Finds that are read of all terms together, and the bounds of those of one term."""
MOST_TOGETHER = 40
"""Finds of terms that are looked up together: each is dear, because most of the finds of either are passed over."""
MOST_EVERYWHERE = 400
"""The same where all chats of an owner are searched."""


@dataclass(frozen=True, slots=True)
class Postings:
    """Where a term stands in a chat: seqs of messages, in no order. `is_cut`: there may be more, in older messages."""

    seqs: tuple[int, ...]
    is_cut: bool


def most_of(terms: int) -> int:
    """How many finds are read of each of so many terms."""
    return max(FEWEST, min(MOST, FINDS // max(1, terms)))


def postings(chat_id: UUID, tokens: Sequence[str], *, before_seq: int, most: int = MOST) -> list[Postings]:
    """For each of `tokens` (hashed terms, or several with spaces between: all of them), its finds in the chat.

    At most so many, and none from message `before_seq` on.
    """
    if not tokens:
        return []
    asked = _postgresql if connection.vendor == "postgresql" else _sqlite
    return [_read(found, most) for found in asked(chat_id, tokens, before_seq, most)]


def _read(found: str | None, most: int) -> Postings:
    seqs = tuple(map(int, found.split(","))) if found else ()
    return Postings(seqs, len(seqs) >= most)


_SQLITE_ONE = (
    f"(SELECT group_concat(seq) FROM (SELECT rowid & {2**SEQ_BITS - 1} AS seq FROM {FTS} WHERE {FTS} MATCH %(term{{}})s"
    f" AND rowid > chat.id << {SEQ_BITS} AND rowid < chat.id << {SEQ_BITS} | %(before)s"
    f" ORDER BY rowid DESC LIMIT %(most)s))"
)


def _sqlite(chat_id: UUID, tokens: Sequence[str], before_seq: int, most: int) -> Sequence[str | None]:
    key = chat_id.hex[-KEY_CHARS:]
    params: dict[str, str | int] = {f"term{at}": _all_of(token, key) for at, token in enumerate(tokens)}
    params |= {"chat": chat_id.hex, "before": before_seq, "most": most}
    with connection.cursor() as cursor:
        cursor.execute(_sqlite_of(len(tokens)), params)
        found: Sequence[str | None] | None = cursor.fetchone()
    return found or [None] * len(tokens)


@cache
def _sqlite_of(terms: int) -> str:
    ones = ", ".join(_SQLITE_ONE.format(at) for at in range(terms))
    return f"SELECT {ones} FROM {CHATS} AS chat WHERE chat.chat_id = %(chat)s"


FIND = Function(
    "memory_recall_find",
    "chat uuid, before integer, most integer, tokens text",
    "SETOF text",
    f"SELECT (SELECT string_agg(seq::text, ',') FROM (SELECT found.seq"
    f" FROM generate_series(before >> {BLOCK_BITS}, 0, -1) AS block CROSS JOIN LATERAL"
    f" (SELECT chat_id, seq FROM {MESSAGES} WHERE {PG_TERMS} @@ replace(asked.token, '#', block::text)::tsquery"
    f" AND {PG_LIVE} OFFSET 0) AS found"
    f" WHERE found.chat_id = chat AND found.seq < before LIMIT most) AS finds)"
    f" FROM string_to_table(tokens, ',') WITH ORDINALITY AS asked (token, place) ORDER BY place",
)
"""Blocks ("#" stands for their number) are looked at one by one, the newest first, until there is enough. OFFSET keeps
the planner from reading the whole chat instead, by its other index."""


def _postgresql(chat_id: UUID, tokens: Sequence[str], before_seq: int, most: int) -> Sequence[str | None]:
    key = str(chat_id)[-KEY_CHARS:]
    asked = ",".join(" & ".join(f"{one}{key}#" for one in token.split()) for token in tokens)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {FIND.name}(%s, %s, %s, %s)", [str(chat_id), before_seq, most, asked])
        return [row[0] for row in cursor.fetchall()]


def everywhere(owner_id: int, tokens: Sequence[str]) -> list[list[tuple[UUID, int]]]:
    """For each of `tokens`, its finds in all chats of that owner, as chat and seq: at most `MOST_EVERYWHERE`."""
    asked = _POSTGRESQL_ALL if connection.vendor == "postgresql" else _SQLITE_ALL
    joined = " & " if connection.vendor == "postgresql" else " AND "
    suffix = ":*" if connection.vendor == "postgresql" else "*"
    found: list[list[tuple[UUID, int]]] = []
    with connection.cursor() as cursor:
        for token in tokens:
            cursor.execute(asked, [joined.join(one + suffix for one in token.split()), owner_id])
            found.append([(UUID(str(chat_id)), seq) for chat_id, seq in cursor.fetchall()])
    return found


_SQLITE_ALL = (
    f"SELECT chat.id, found.number & {2**SEQ_BITS - 1} FROM"
    f" (SELECT rowid AS number FROM {FTS} WHERE {FTS} MATCH %s ORDER BY rowid DESC LIMIT {MOST_EVERYWHERE}) AS found"
    f" JOIN {CHATS} AS numbered ON numbered.id = found.number >> {SEQ_BITS}"
    f" JOIN conversations_chat AS chat ON chat.id = numbered.chat_id AND chat.owner_id = %s"
)
_POSTGRESQL_ALL = (
    f"SELECT chat.id, found.seq FROM"
    f" (SELECT chat_id, seq FROM {MESSAGES} WHERE {PG_TERMS} @@ %s::tsquery AND {PG_LIVE} LIMIT {MOST_EVERYWHERE})"
    f" AS found JOIN conversations_chat AS chat ON chat.id = found.chat_id AND chat.owner_id = %s"
)


def _all_of(token: str, key: str) -> str:
    return " AND ".join(one + key for one in token.split())
