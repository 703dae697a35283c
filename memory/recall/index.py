"""Recall: find excerpts of earlier turns that a question is about, however far back, with the recall index.

`Search` takes a few selects by key or index, independent of the chat's length: matches of the question's terms;
speakers and lengths of the most promising messages; the terms of the best of them; the texts of those that are shown
and long. Messages that are near in meaning are passed in (`memory.recall.embeddings`). `memory.recall.question` parses
the question, `memory.recall.ranking` decides whether it calls for earlier turns and which passages are good, and
`memory.recall.excerpts` renders them.

One interface to both databases. A look-up costs about the same for any term and any length of chat, because only so
many matches of a term are read: on SQLite the newest, on PostgreSQL those of the newest blocks. Every match is checked
against its chat, so a message of another chat is never returned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection

from conversations.models import TEXT_STATUSES, Chat, Message, Role
from memory.limits import MemoryLimits
from memory.recall.excerpts import Excerpt, RecalledMessage
from memory.recall.question import Question, read_question
from memory.recall.ranking import (
    PRESELECT_FACTOR,
    SPARE_FACTOR,
    Indexed,
    Lengths,
    Matches,
    Near,
    Ranked,
    Recall,
    Size,
    closest,
    decide,
    excerpts,
    fuse,
    known_words,
    messages_to_read,
    promising_seqs,
    rank,
    unranked,
    weigh,
    with_places,
    words_to_combine,
    worth_showing,
)
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


BY_MEANING = 60
"""Messages that are read because they are near in meaning."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """Excerpts that match the question, best first, and the messages that they quote, by seq."""

    excerpts: tuple[Excerpt, ...] = ()
    said: dict[int, RecalledMessage] = field(default_factory=dict)


class Search:
    """The search of a chat for one question: its matches, the decision whether to recall, and the excerpts."""

    def __init__(self, chat: Chat, question: str, *, before_seq: int, near: Sequence[Near] = ()) -> None:
        """Look up the question's words in messages before `before_seq`. `near` are those with a similar meaning."""
        self._chat_id = chat.pk
        self._before_seq = before_seq
        self._near = [one for one in near if one.seq < before_seq]
        self._question = read_question(question, chat.owner_id)
        self._matches = _look_up(chat.pk, self._question, before_seq)

    def decision(self, limits: MemoryLimits, shown: Iterable[int], remembered: Collection[str]) -> Recall:
        """Whether earlier turns are worth their tokens, given the messages `shown` and the terms `remembered`."""
        if not (self._matches.at or self._near):
            return Recall("none", "nothing_new" if self._question.words else "no_words")
        known = known_words(self._question, self._matches, shown, remembered)
        return decide(limits, self._question, self._matches, known)

    def recalled(self, room: int, shown: Iterable[int] = ()) -> Recalled:
        """Return excerpts for the question, of about `room` tokens or somewhat more, none of the messages `shown`."""
        if room <= 0:
            return Recalled()
        hidden = frozenset(shown)
        ranked, messages = self._ranked(messages_to_read(room), hidden)
        if near := [one for one in self._near if one.seq not in hidden]:
            ranked, messages = _fused(self._question, ranked, messages, near)
        ranked = worth_showing(ranked, SPARE_FACTOR * room)
        if not ranked:
            return Recalled()
        said = messages.said({one.message.seq for one in ranked})
        return Recalled(tuple(excerpts(ranked, said)), said)

    def ranked(self, room: int, shown: Iterable[int] = ()) -> list[Ranked]:
        """The passages that `recalled` chooses from, by words only, best first, with their scores."""
        return self._ranked(messages_to_read(room), frozenset(shown))[0]

    @property
    def question(self) -> Question:
        """The parsed question."""
        return self._question

    def _ranked(self, most: int, hidden: frozenset[int]) -> tuple[list[Ranked], MessagesRead]:
        """The passages that have the question's words, best first, and the messages that were read for it."""
        asked, matches, last_seq = self._question, self._matches, self._before_seq - 1
        promising = [
            seq for seq in promising_seqs(matches, hidden, PRESELECT_FACTOR * most) if seq <= last_seq
        ]
        there = sizes(self._chat_id, promising)
        messages = read_messages(self._chat_id, closest(asked, matches, there, most))
        lengths = Lengths.of(asked, there.values())
        return rank(asked, matches, messages.indexed().values(), lengths), messages


def _look_up(chat_id: UUID, asked: Question, before_seq: int) -> Matches:
    """Find where the words of a question occur in a chat before message `before_seq`."""
    tokens = [word.token for word in asked.words]
    reach = matches_per_term(len(tokens))
    found = postings(chat_id, tokens, before_seq=before_seq, most=reach)
    matches = weigh(asked, [one.seqs for one in found], reach, before_seq - 1)
    if together := words_to_combine(matches, [one.is_cut for one in found]):
        joined = [" ".join(tokens[at] for at in ats) for ats in together]
        both = postings(chat_id, joined, before_seq=before_seq, most=MOST_TOGETHER)
        matches = with_places(matches, together, [one.seqs for one in both])
    return matches


def _fused(
    asked: Question, ranked: Sequence[Ranked], messages: MessagesRead, near: Sequence[Near]
) -> tuple[list[Ranked], MessagesRead]:
    """Merge matches by words with those near in meaning; return the passages, and all messages that were read."""
    seqs = {one.seq for one in near[:BY_MEANING]}
    messages |= read_messages(messages.chat_id, seqs - messages.rows.keys())
    by_meaning = seqs - {one.message.seq for one in ranked}
    indexed = messages.indexed()
    others = [unranked(message) for seq, message in indexed.items() if seq in by_meaning]
    lengths = Lengths.of(asked, [Size(message.is_user, message.tokens) for message in indexed.values()])
    return fuse([*ranked, *others], near, lengths), messages
