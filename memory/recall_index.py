"""What the recall index knows of a term: in which messages of a chat it stands. One interface to both databases.

A look-up costs much the same however common the term is and however long the chat, because only so many finds of a
term are read: on SQLite the newest, on PostgreSQL those of the newest blocks. What finds are worth is decided in
`memory.ranking`. Every find is held against its chat, so no other chat's message can be one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from uuid import UUID

from django.db import connection

from memory.pg_functions import Function
from memory.recall_schema import (
    BLOCK_BITS,
    CHATS,
    FTS,
    KEY_CHARS,
    MESSAGES,
    PG_LIVE,
    PG_TERMS,
    SEQ_BITS,
)

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
