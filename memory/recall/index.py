"""Read the recall index: which messages of a chat contain a term, and what these messages are.

One interface to both databases. A look-up costs about the same for any term and any length of chat, because only so
many matches of a term are read: on SQLite the newest, on PostgreSQL those of the newest blocks. Every match is
checked against its chat, so a message of another chat is never returned.

For the matches, their speakers and lengths are read first; then, for the promising ones, one select reads their
stored terms, and the texts of all that are not long. Most messages that are read or shown are short, so only long
ones that are shown take one more select. `memory.recall.ranking` decides which matches are promising.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection

from conversations.models import TEXT_STATUSES, Message, Role
from memory.recall.excerpts import RecalledMessage
from memory.recall.ranking import Indexed, Size
from memory.recall.schema import BLOCK_BITS, CHATS, FTS, KEY_CHARS, MESSAGES, PG_LIVE, PG_TERMS, SEQ_BITS

SHORT_CHARS = 1500
"""Longest text that is read along with the terms. PostgreSQL stores longer ones (from 2 kB) outside of the row."""

_MESSAGES = Message._meta.db_table
_STATUSES = ", ".join(f"'{status}'" for status in TEXT_STATUSES)
_LIVE = f"status IN ({_STATUSES}) AND superseded_by_id IS NULL AND token_count > 0"
_SHORT = f"CASE WHEN length(content) <= {SHORT_CHARS} THEN content END"


@dataclass(frozen=True, slots=True)
class _Sql:
    """Hand-written selects, with one parameter for any number of seqs: as querysets they took two thirds longer."""

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
_POSTGRESQL = _Sql.of("id::text, (created_at AT TIME ZONE 'UTC')::date::text", "= ANY(%s::integer[])")


def _sql() -> _Sql:
    return _POSTGRESQL if connection.vendor == "postgresql" else _SQLITE


_Row = tuple[int, str, int, str | None, str | None, str, str]
"""A message's seq, role, tokens, terms, text (None if it is long), id and day (UTC)."""


@dataclass(frozen=True, slots=True)
class MessagesRead:
    """Messages that were read, by seq."""

    chat_id: UUID
    rows: Mapping[int, _Row] = field(default_factory=dict)

    def indexed(self) -> dict[int, Indexed]:
        """All of them as the index stores them, in order."""
        user = Role.USER.value
        return {
            seq: Indexed(seq, role == user, tokens, tuple(terms.split("\n")) if terms else ("",), day)
            for seq, role, tokens, terms, _, _, day in self.rows.values()
        }

    def said(self, seqs: Collection[int]) -> dict[int, RecalledMessage]:
        """Return these messages with their texts. Query the long ones."""
        short = {seq: _said(row) for seq in seqs if (row := self.rows[seq])[4] is not None}
        return short | quoted(self.chat_id, [seq for seq in seqs if seq not in short])

    def __or__(self, more: MessagesRead) -> MessagesRead:
        """Return these messages and those of `more`, which are of the same chat."""
        return MessagesRead(self.chat_id, {**self.rows, **more.rows})


def sizes(chat_id: UUID, seqs: Iterable[int]) -> dict[int, Size]:
    """Return speaker and length of these messages, by seq. Only messages that are part of a turn are included."""
    user = Role.USER.value
    return {seq: Size(role == user, tokens) for seq, role, tokens in _select(_sql().sizes, chat_id, seqs)}


def read_messages(chat_id: UUID, seqs: Iterable[int]) -> MessagesRead:
    """Read these messages. Those that are not part of a turn are skipped."""
    return MessagesRead(chat_id, {row[0]: row for row in _select(_sql().look, chat_id, seqs)})


def quoted(chat_id: UUID, seqs: Iterable[int]) -> dict[int, RecalledMessage]:
    """Return these messages by seq, superseded ones included: an old prompt is shown as it was."""
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
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return list(cursor.fetchall())


MAX_MATCHES, MIN_PER_TERM, MAX_PER_TERM = 1000, 120, 250
"""Matches that are read of all terms together, and the bounds for one term. Long replies have many common words, so of
fewer matches most were in replies, and what the user had said further back was not found (`docs/recall.md`)."""
MOST_TOGETHER = 40
"""Maximum number of matches of terms that are looked up together. Each is expensive, as most of either are skipped."""
MOST_EVERYWHERE = 400
"""Maximum number of matches of one term in all chats of an owner."""


@dataclass(frozen=True, slots=True)
class Postings:
    """Where a term occurs in a chat: seqs of messages, in no order. `is_cut`: older messages may contain it, too."""

    seqs: tuple[int, ...]
    is_cut: bool


def matches_per_term(terms: int) -> int:
    """How many matches are read of each of `terms` terms."""
    return max(MIN_PER_TERM, min(MAX_PER_TERM, MAX_MATCHES // max(1, terms)))


def postings(
    chat_id: UUID, tokens: Sequence[str], *, before_seq: int, most: int = MAX_PER_TERM
) -> list[Postings]:
    """Return the matches in the chat for each of `tokens`.

    A token is a hashed term, or several separated by spaces, which must all match. At most `most` each, and none from
    message `before_seq` on.
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


_FIND = (
    "SET LOCAL jit = off;"
    f" SELECT (SELECT string_agg(seq::text, ',') FROM (SELECT found.seq"
    f" FROM generate_series(%(before)s >> {BLOCK_BITS}, 0, -1) AS block CROSS JOIN LATERAL"
    f" (SELECT chat_id, seq FROM {MESSAGES} WHERE {PG_TERMS} @@ replace(term.token, '#', block::text)::tsquery"
    f" AND {PG_LIVE} OFFSET 0) AS found"
    f" WHERE found.chat_id = %(chat)s AND found.seq < %(before)s LIMIT %(most)s) AS finds)"
    f" FROM unnest(%(tokens)s::text[]) WITH ORDINALITY AS term (token, place) ORDER BY place"
)
"""Blocks ("#" stands for their number) are searched one by one, newest first, until there are enough matches. OFFSET
keeps the planner from reading the whole chat by its other index instead. Where there are many messages, it would
overestimate the cost and compile the statement, which takes 20 times as long as to run it (measured)."""


def _postgresql(chat_id: UUID, tokens: Sequence[str], before_seq: int, most: int) -> Sequence[str | None]:
    key = str(chat_id)[-KEY_CHARS:]
    terms = [" & ".join(f"{one}{key}#" for one in token.split()) for token in tokens]
    params: dict[str, Any] = {"chat": chat_id, "before": before_seq, "most": most, "tokens": terms}
    with connection.cursor() as cursor:
        cursor.execute(_FIND, params)
        cursor.nextset()
        return [row[0] for row in cursor.fetchall()]


def owner_matches(owner_id: int, tokens: Sequence[str]) -> list[list[tuple[UUID, int]]]:
    """Return the matches of each of `tokens` in all chats of that owner, as chat and seq: at most `MOST_EVERYWHERE`."""
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
