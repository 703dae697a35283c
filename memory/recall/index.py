"""The recall index, full text over messages: how each database keeps it, how it is asked, and what a question finds.

PostgreSQL: an index on an expression of the message's own row. SQLite: an FTS5 table that triggers write to; its row
ids combine a number for the chat with the message's seq. Rebuilding a table, as many migrations do on SQLite,
silently drops its triggers. So `ensure` checks after every migration, and refills the index if one was missing. The
sweep keeps it fast and complete (`merge`, `fill`).

Every stored term has the key of its chat appended here, so that the cost of a look-up depends only on its own chat;
on PostgreSQL also the number of its block, because that database reads a list of matches completely. A look-up costs
about the same for any term and any length of chat, because only so many matches of a term are read: on SQLite the
newest, on PostgreSQL those of the newest blocks. Every match is checked against its chat, so a message of another chat
is never returned.

`Search` takes a few selects by key or index, independent of the chat's length: matches of the question's terms;
speakers and lengths of the most promising messages; the terms of the best of them, with short texts; long texts of
those that are shown. Messages that are near in meaning are passed in (`memory.recall.embeddings`).
`memory.recall.question` parses the question; `memory.recall.ranking` decides whether it calls for earlier turns, and
which passages are good.
"""

import json
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from chatmemory.database.owned import ChatKey
from chatmemory.text.thoughts import said
from conversations.models import TEXT_STATUSES, Chat, Message
from memory.limits import MemoryLimits
from memory.recall.question import Question, read_question
from memory.recall.ranking import (
    PRESELECT_FACTOR,
    SPARE_FACTOR,
    Excerpt,
    Indexed,
    Lengths,
    Matches,
    Near,
    Ranked,
    Recall,
    RecalledMessage,
    closest,
    decide,
    excerpts,
    fuse,
    known_words,
    messages_to_read,
    promising,
    rank,
    weigh,
    with_standing,
    words_to_combine,
    worth_showing,
)
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
_PG_INDEX = f"CREATE INDEX {INDEX} ON {MESSAGES} USING gin (({PG_TERMS})) WITH (fastupdate = off) WHERE {PG_LIVE}"

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
    "memory_recall_delete": (f"AFTER DELETE ON {MESSAGES} WHEN {_OLD} BEGIN {_remove('OLD.')} {_FORGET_CHAT} END"),
    "memory_recall_update": (
        f"AFTER UPDATE OF terms, status, superseded_by_id, seq, chat_id ON {MESSAGES}"
        f" WHEN ({_OLD}) IS NOT ({_NEW}) OR OLD.terms IS NOT NEW.terms OR OLD.seq <> NEW.seq"
        f" OR OLD.chat_id <> NEW.chat_id"
        f" BEGIN {_remove('OLD.', where=_OLD)} {_add('NEW.', where=_NEW)} END"
    ),
}
"""No trigger names a table that a migration might rebuild, except its own: SQLite would refuse to rename that table."""


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
    triggers = {name: f"CREATE TRIGGER {name} {body}" for name, body in TRIGGERS.items()}
    expected = {FTS: _FTS, CHATS: _CHATS, **triggers}
    with connection.cursor() as cursor:
        places = ", ".join(["%s"] * len(expected))
        cursor.execute(f"SELECT name, sql FROM sqlite_master WHERE name IN ({places})", list(expected))
        if dict(cursor.fetchall()) == expected:
            return False
    with transaction.atomic(), connection.cursor() as cursor:
        for name in triggers:
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        for table in (FTS, CHATS):
            cursor.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in expected.values():
            cursor.execute(statement)
        live = LIVE.format(row="m.")
        cursor.execute(f"INSERT INTO {CHATS} (chat_id) SELECT DISTINCT chat_id FROM {MESSAGES} m WHERE {live}")
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


def fill(limit: int | None = None) -> int:
    """Store the terms of messages that have none, of about `limit` at most; return how many there were."""
    missing = Message.objects.filter(terms__isnull=True).values_list("pk", "content", "role", "owner_id")
    to_db = Message._meta.get_field("id").get_db_prep_value
    filled = 0
    while (limit is None or filled < limit) and (rows := list(missing[:BATCH])):
        values = [(stored_terms(said(*said_by), owner), to_db(pk, connection), owner) for pk, *said_by, owner in rows]
        with transaction.atomic(), connection.cursor() as cursor:
            # If the message was changed in the meantime, it already has new terms.
            cursor.executemany(
                f"UPDATE {MESSAGES} SET terms = %s WHERE id = %s AND owner_id = %s AND terms IS NULL", values
            )
        filled += len(rows)
    if filled:
        logger.info("messages analysed for recall", extra={"messages": filled})
    return filled


# Where terms occur


MAX_MATCHES, MIN_PER_TERM, MAX_PER_TERM = 1000, 120, 250
"""Matches that are read of all terms together, and the bounds for one term. Long replies have many common words, so of
fewer matches most were in replies, and what the user had said further back was not found (`docs/recall.md`)."""
READ_WHOLE = 2000
"""Messages up to which a chat's matches are all read, because the oldest ones have what was said once at its start."""
MAX_TOGETHER = 40
"""Maximum number of matches of terms that are looked up together. Each is expensive, as most of either are skipped."""
MAX_EVERYWHERE = 400
"""Maximum number of matches of one term in all chats of an owner."""


def postings(chat: ChatKey, tokens: Sequence[str], *, before_seq: int, limit: int = MAX_PER_TERM) -> list[list[int]]:
    """Return where each of `tokens` occurs in a chat: seqs of messages before `before_seq`, in no order.

    A token is a hashed term, or several separated by spaces, which must all match. There are at most `limit` each; if
    there are so many, older messages may contain it, too.
    """
    if not tokens:
        return []
    key = chat.id.hex[-KEY_CHARS:]
    params: dict[str, Any] = {"before": before_seq, "limit": limit}
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            terms = [" & ".join(f"{one}{key}#" for one in token.split()) for token in tokens]
            cursor.execute(_POSTGRESQL, {**params, "chat": chat.id, "owner": chat.owner_id, "terms": terms})
            cursor.nextset()
        else:
            terms = [" AND ".join(one + key for one in token.split()) for token in tokens]
            cursor.execute(_SQLITE, {**params, "chat": chat.id.hex, "terms": json.dumps(terms)})
        found = cursor.fetchall() or [(None,)] * len(tokens)  # in SQLite, a chat without terms has no row
    return [list(map(int, seqs.split(","))) if seqs else [] for (seqs,) in found]


_SQLITE = (
    f"SELECT (SELECT group_concat(seq) FROM (SELECT rowid & {2**SEQ_BITS - 1} AS seq"
    f" FROM {FTS} WHERE {FTS} MATCH term.value"
    f" AND rowid > chat.id << {SEQ_BITS} AND rowid < chat.id << {SEQ_BITS} | %(before)s"
    f" ORDER BY rowid DESC LIMIT %(limit)s))"
    f" FROM {CHATS} AS chat, json_each(%(terms)s) AS term WHERE chat.chat_id = %(chat)s ORDER BY term.key"
)
_POSTGRESQL = (
    "SET LOCAL jit = off;"
    f" SELECT (SELECT string_agg(seq::text, ',') FROM (SELECT found.seq"
    f" FROM generate_series(%(before)s >> {BLOCK_BITS}, 0, -1) AS block CROSS JOIN LATERAL"
    f" (SELECT chat_id, seq FROM {MESSAGES} WHERE {PG_TERMS} @@ replace(term.token, '#', block::text)::tsquery"
    f" AND {PG_LIVE} AND owner_id = %(owner)s OFFSET 0) AS found"
    f" WHERE found.chat_id = %(chat)s AND found.seq < %(before)s LIMIT %(limit)s) AS finds)"
    f" FROM unnest(%(terms)s::text[]) WITH ORDINALITY AS term (token, place) ORDER BY place"
)
"""Blocks ("#" stands for their number) are searched one by one, newest first, until there are enough matches. OFFSET
keeps the planner from reading the whole chat by its other index instead. Where there are many messages, it would
overestimate the cost and compile the statement, which takes 20 times as long as to run it (measured)."""


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


_LISTED = "chat.owner_id = %(owner)s AND NOT chat.temporary"
_SQLITE_ALL = (
    f"SELECT chat.id, found.number & {2**SEQ_BITS - 1} FROM"
    f" (SELECT rowid AS number FROM {FTS} WHERE {FTS} MATCH %(terms)s ORDER BY rowid DESC LIMIT {MAX_EVERYWHERE})"
    f" AS found"
    f" JOIN {CHATS} AS numbered ON numbered.id = found.number >> {SEQ_BITS}"
    f" JOIN conversations_chat AS chat ON chat.id = numbered.chat_id AND {_LISTED}"
)
_POSTGRESQL_ALL = (
    f"SELECT chat.id, found.seq FROM"
    f" (SELECT chat_id, seq FROM {MESSAGES} WHERE {PG_TERMS} @@ %(terms)s::tsquery AND {PG_LIVE}"
    f" AND owner_id = %(owner)s LIMIT {MAX_EVERYWHERE}) AS found"
    f" JOIN conversations_chat AS chat ON chat.id = found.chat_id AND {_LISTED}"
)


# What a question finds


SHORT_CHARS = 1500
"""Longest text that is read along with the terms. PostgreSQL stores longer ones (from 2 kB) outside of the row."""
_STATUSES = ", ".join(f"'{status}'" for status in TEXT_STATUSES)
_LIVE = f"AND status IN ({_STATUSES}) AND superseded_by_id IS NULL AND token_count > 0 AND muted_at IS NULL"


def quoted(chat: ChatKey, seqs: Iterable[int]) -> dict[int, RecalledMessage]:
    """Return these messages by seq, superseded ones included: an old prompt is shown as it was."""
    rows = _select(chat, seqs, "id, seq, role, created_at, content, token_count", live=False)
    return {row[1]: _message(*row) for row in rows}


def _message(key: Any, seq: int, role: str, at: Any, text: str, tokens: int) -> RecalledMessage:
    return RecalledMessage(UUID(str(key)), seq, role, str(at)[:10], text and said(text, role), tokens)


def _select(chat: ChatKey, seqs: Iterable[int], columns: str, *, live: bool = True) -> list[Any]:
    """Return columns of messages of a chat, only of those that may be quoted anew if `live`.

    Written by hand: as a queryset it takes two thirds longer.
    """
    if not (listed := ",".join(map(str, seqs))):
        return []
    key = Message._meta.get_field("chat").get_db_prep_value(chat.id, connection)
    where = f"chat_id = %s AND owner_id = %s AND seq IN ({listed}) {_LIVE if live else ''}"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM {MESSAGES} WHERE {where} ORDER BY seq", [key, chat.owner_id])
        return list(cursor.fetchall())


BY_MEANING = 60
"""Messages that are read because they are near in meaning."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """Excerpts that match the question, best first, and the messages that they quote, by seq."""

    excerpts: tuple[Excerpt, ...] = ()
    messages: dict[int, RecalledMessage] = field(default_factory=dict)


class Search:
    """The search of a chat for one question: its matches, the decision whether to recall, and the excerpts."""

    def __init__(self, chat: Chat, question: str, *, before_seq: int, near: Sequence[Near] = ()) -> None:
        """Look up the question's words in messages before `before_seq`. `near` are those with a similar meaning."""
        self._chat = chat.key
        self._before_seq = before_seq
        self._near = [one for one in near if one.seq < before_seq]
        self._question = read_question(question, chat.owner_id)
        self._matches = _look_up(chat.key, self._question, before_seq)
        self._messages: dict[int, Indexed] = {}
        """The messages that were read, by seq."""
        self._short: dict[int, RecalledMessage] = {}
        """Those of them that are short, with their texts."""

    def decision(self, limits: MemoryLimits, shown: Iterable[int], remembered: Collection[str]) -> Recall:
        """Whether earlier turns are worth their tokens, given the messages `shown` and the terms `remembered`."""
        if not (self._matches.at or self._near):
            return Recall("none", "nothing_new" if self._question.words else "no_words")
        known = known_words(self._question, self._matches, shown, remembered)
        return decide(limits, self._question, self._matches, known)

    def recalled(self, room: int, shown: Iterable[int] = (), standing: Iterable[int] = ()) -> Recalled:
        """Return excerpts for the question, of about `room` tokens or somewhat more, none of the messages `shown`.

        `standing` are messages whose pins have no room in the prompt.
        """
        if room <= 0:
            return Recalled()
        hidden = frozenset(shown)
        pinned = {seq for seq in standing if seq < self._before_seq} - hidden
        ranked = self._ranked(messages_to_read(room), hidden, pinned)
        if near := [one for one in self._near if one.seq not in hidden]:
            ranked = self._fused(ranked, near)
        ranked = worth_showing(ranked, SPARE_FACTOR * room)
        shown_seqs = {one.message.seq for one in ranked}
        messages = {seq: self._short[seq] for seq in shown_seqs & self._short.keys()}
        messages |= quoted(self._chat, shown_seqs - messages.keys())
        return Recalled(tuple(excerpts(ranked, messages)), messages)

    def _ranked(self, limit: int, hidden: frozenset[int], pinned: Collection[int]) -> list[Ranked]:
        """The passages that have the question's words, and one of each message of `pinned`; best first."""
        scores = promising(self._matches, hidden, PRESELECT_FACTOR * limit)
        there = [seq for seq in scores if seq < self._before_seq]
        rows = _select(self._chat, there, "seq, role, token_count")
        sizes = {seq: (role == "user", tokens) for seq, role, tokens in rows}
        lengths = Lengths.of(self._question, sizes.values())
        self._read({*closest(scores, sizes, lengths, limit), *pinned})
        ranked = rank(self._question, self._matches, self._messages.values(), lengths)
        return with_standing(ranked, [one for one in self._messages.values() if one.seq in pinned])

    def _fused(self, ranked: Sequence[Ranked], near: Sequence[Near]) -> list[Ranked]:
        """Merge the matches by words with those near in meaning, for which more messages are read."""
        seqs = {one.seq for one in near[:BY_MEANING]}
        self._read(seqs - self._messages.keys())
        by_meaning = seqs - {one.message.seq for one in ranked}
        messages = self._messages.values()
        others = [Ranked(0.0, one, None if one.is_whole else 0) for one in messages if one.seq in by_meaning]
        lengths = Lengths.of(self._question, [(one.is_user, one.tokens) for one in messages])
        return fuse([*ranked, *others], near, lengths)

    def _read(self, seqs: Iterable[int]) -> None:
        """Read these messages. Those that are not part of a turn are skipped."""
        short = f"CASE WHEN length(content) <= {SHORT_CHARS} THEN content END"
        columns = f"id, seq, role, created_at, {short}, token_count, terms"
        for *row, terms in _select(self._chat, seqs, columns):
            one = _message(*row)
            passages = tuple((terms or "").split("\n"))
            self._messages[one.seq] = Indexed(one.seq, one.role == "user", one.tokens, passages, one.on)
            if one.text is not None:
                self._short[one.seq] = one


def _look_up(chat: ChatKey, question: Question, before_seq: int) -> Matches:
    """Find where the words of a question occur in a chat before message `before_seq`."""
    tokens = [word.token for word in question.words]
    reach = max(MIN_PER_TERM, min(MAX_PER_TERM, MAX_MATCHES // max(1, len(tokens))))
    if before_seq <= READ_WHOLE:
        reach = before_seq
    found = postings(chat, tokens, before_seq=before_seq, limit=reach)
    matches = weigh(question, found, reach, before_seq - 1)
    if together := words_to_combine(matches, [len(one) >= reach for one in found]):
        joined = " ".join(tokens[at] for at in together)
        (seqs,) = postings(chat, [joined], before_seq=before_seq, limit=MAX_TOGETHER)
        matches.add(sum(1 << at for at in together), seqs)
    return matches
