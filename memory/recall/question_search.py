"""What a question finds: for a prompt, in the messages of its chat, or in those of the owner's other chats.

`Search` takes a few selects by key or index, independent of the number of messages: matches of the question's terms;
speakers and lengths of the most promising messages; the terms of the best of them, with short texts; long texts of
those that are shown. Messages that are near in meaning are passed in (`memory.recall.embeddings`).
`memory.recall.question` parses the question; `memory.recall.ranking` decides whether it calls for earlier turns, and
which passages are good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import connection

from chatmemory.database.owned import ChatKey
from chatmemory.text.thoughts import visible_text
from conversations.models import TEXT_STATUSES, Across, Message
from memory.limits import MemoryLimits
from memory.models import MemoryScope
from memory.recall import ranking
from memory.recall.index import OF_MESSAGES, OF_SCOPES, TermIndex
from memory.recall.question import Question, read_question
from memory.recall.ranking import Excerpt, Indexed, Lengths, Matches, Near, Ranked, Recall, RecalledMessage

MAX_MATCHES, MIN_PER_TERM, MAX_PER_TERM = 1000, 120, 250
"""Matches that are read of all terms together, and the bounds for one term. Long replies have many common words, so of
fewer matches most were in replies, and what the user had said further back was not found (`docs/recall.md`)."""
READ_WHOLE = 2000
"""Messages up to which a chat's matches are all read, because the oldest ones have what was said once at its start."""
MAX_TOGETHER = 40
"""Maximum number of matches of terms that are looked up together. Each is expensive, as most of either are skipped."""


# Where a question is searched


_STATUSES = ", ".join(f"'{status}'" for status in TEXT_STATUSES)
_LIVE = f"m.status IN ({_STATUSES}) AND m.superseded_by_id IS NULL AND m.token_count > 0 AND m.muted_at IS NULL"
"""Which messages can be quoted: those that are part of a turn, and not muted."""
_COLUMNS = "m.id, m.role, m.created_at, m.content, m.token_count, m.terms"


@dataclass(frozen=True, slots=True)
class Corpus:
    """The messages among which a question is searched, each by its place: those of a chat, or those of a scope."""

    index: TermIndex
    key: UUID
    owner_id: int
    before: int
    """Only messages at a lower place count."""
    rows: str
    """The messages of which any can be read, as SQL with the column `place`."""
    params: tuple[Any, ...]

    @classmethod
    def of_chat(cls, chat: ChatKey, before_seq: int, *, live: bool = True) -> Corpus:
        """The messages of a chat before message `before_seq`; with `live` false, superseded ones, too."""
        rows = (
            f"SELECT m.seq AS place, {_COLUMNS} FROM conversations_message m"
            f" WHERE m.chat_id = %s AND m.owner_id = %s {f'AND {_LIVE}' if live else ''} AND m.seq"
        )
        return cls(OF_MESSAGES, chat.id, chat.owner_id, before_seq, rows, (_stored(chat.id), chat.owner_id))

    @classmethod
    def of_scope(cls, scope: MemoryScope, chat: ChatKey) -> Corpus:
        """The messages of all chats of `scope` but `chat`, as far as they may be quoted."""
        rows = (
            f"SELECT s.number AS place, {_COLUMNS} FROM memory_scopedmessage s"
            " JOIN conversations_message m ON m.chat_id = s.chat_id AND m.seq = s.seq AND m.owner_id = s.owner_id"
            " JOIN conversations_chat c ON c.id = s.chat_id AND c.owner_id = s.owner_id"
            f" WHERE s.scope_id = %s AND s.owner_id = %s AND {_LIVE}"
            f" AND c.id <> %s AND c.project = %s AND c.across = '{Across.ALL}' AND NOT c.temporary AND s.number"
        )
        params = (_stored(scope.pk), scope.owner_id, _stored(chat.id), scope.project)
        return cls(OF_SCOPES, scope.pk, scope.owner_id, scope.last_number + 1, rows, params)

    def postings(self, tokens: Sequence[str], limit: int) -> list[list[int]]:
        """Return the places of each of `tokens`, at most `limit` (`TermIndex.postings`)."""
        return self.index.postings(self.key, self.owner_id, tokens, before=self.before, limit=limit)

    def read(self, places: Iterable[int], columns: str) -> list[Any]:
        """Return columns of the messages at these places, in order.

        Written by hand: as a queryset it takes two thirds longer.
        """
        if not (listed := ",".join(map(str, places))):
            return []
        with connection.cursor() as cursor:
            found = f"SELECT {columns} FROM ({self.rows} IN ({listed})) AS found ORDER BY place"
            cursor.execute(found, self.params)
            return list(cursor.fetchall())

    def quoted(self, places: Iterable[int]) -> dict[int, RecalledMessage]:
        """Return these messages by place."""
        rows = self.read(places, "id, place, role, created_at, content, token_count")
        return {row[1]: _message(*row) for row in rows}


def _stored(key: UUID) -> Any:
    return Message._meta.get_field("chat").get_db_prep_value(key, connection)


def quoted(chat: ChatKey, seqs: Iterable[int]) -> dict[int, RecalledMessage]:
    """Return these messages of a chat by seq, superseded ones included: an old prompt is shown as it was."""
    return Corpus.of_chat(chat, 0, live=False).quoted(seqs)


def _message(key: Any, seq: int, role: str, at: Any, text: str, tokens: int) -> RecalledMessage:
    return RecalledMessage(UUID(str(key)), seq, role, str(at)[:10], text and visible_text(text, role), tokens)


SHORT_CHARS = 1500
"""Longest text that is read along with the terms. PostgreSQL stores longer ones (from 2 kB) outside of the row."""
BY_MEANING = 60
"""Messages that are read because they are near in meaning."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """Excerpts that match the question, best first, and the messages that they quote, by seq."""

    excerpts: tuple[Excerpt, ...] = ()
    messages: dict[int, RecalledMessage] = field(default_factory=dict)
    words: int = 0
    """The question's words in and around the best passage, as bits."""


class Search:
    """A search for one question: its matches, the decision whether to recall, and the excerpts."""

    def __init__(self, corpus: Corpus, question: str, near: Sequence[Near] = ()) -> None:
        """Look up the question's words in `corpus`. `near` are messages with a similar meaning."""
        self._corpus = corpus
        self._near = [one for one in near if one.seq < corpus.before]
        self._question = read_question(question, corpus.owner_id)
        self.matches = _look_up(corpus, self._question)
        self._messages: dict[int, Indexed] = {}
        """The messages that were read, by seq."""
        self._short: dict[int, RecalledMessage] = {}
        """The short ones among them, with their texts."""

    def known(self, shown: Iterable[int], remembered: Collection[str]) -> int:
        """The question's words, as bits, that occur in the messages `shown` or among the terms `remembered`."""
        return ranking.known_words(self._question, self.matches, shown, remembered)

    def decision(self, limits: MemoryLimits, known: int) -> Recall:
        """Whether earlier turns are worth their tokens, given the question's words that are `known`, as bits."""
        if not (self.matches.at or self._near):
            return Recall("none", "nothing_new" if self._question.words else "no_words")
        return ranking.decide(limits, self._question, self.matches, known)

    def recalled(self, room: int, shown: Iterable[int] = (), standing: Iterable[int] = ()) -> Recalled:
        """Return excerpts for the question, of about `room` tokens or somewhat more, none of the messages `shown`.

        `standing` are messages whose pins have no room in the prompt.
        """
        if room <= 0:
            return Recalled()
        hidden = frozenset(shown)
        pinned = {seq for seq in standing if seq < self._corpus.before} - hidden
        ranked = self._ranked(ranking.messages_to_read(room), hidden, pinned)
        if near := [one for one in self._near if one.seq not in hidden]:
            ranked = self._fused(ranked, near)
        ranked = ranking.worth_showing(ranked, ranking.SPARE_FACTOR * room)
        shown_seqs = {one.message.seq for one in ranked}
        messages = {seq: self._short[seq] for seq in shown_seqs & self._short.keys()}
        messages |= self._corpus.quoted(shown_seqs - messages.keys())
        return Recalled(tuple(ranking.excerpts(ranked, messages)), messages, ranked[0].words if ranked else 0)

    def _ranked(self, limit: int, hidden: frozenset[int], pinned: Collection[int]) -> list[Ranked]:
        """The passages that have the question's words, and one of each message of `pinned`; best first."""
        scores = ranking.promising(self.matches, hidden, ranking.PRESELECT_FACTOR * limit)
        there = [seq for seq in scores if seq < self._corpus.before]
        rows = self._corpus.read(there, "place, role, token_count")
        sizes = {seq: (role == "user", tokens) for seq, role, tokens in rows}
        lengths = Lengths.of(self._question, sizes.values())
        self._read({*ranking.closest(scores, sizes, lengths, limit), *pinned})
        ranked = ranking.rank(self._question, self.matches, self._messages.values(), lengths)
        return ranking.with_standing(ranked, [one for one in self._messages.values() if one.seq in pinned])

    def _fused(self, ranked: Sequence[Ranked], near: Sequence[Near]) -> list[Ranked]:
        """Merge the matches by words with those near in meaning, for which more messages are read."""
        seqs = {one.seq for one in near[:BY_MEANING]}
        self._read(seqs - self._messages.keys())
        by_meaning = seqs - {one.message.seq for one in ranked}
        messages = self._messages.values()
        others = [Ranked(0.0, one, None if one.is_whole else 0) for one in messages if one.seq in by_meaning]
        lengths = Lengths.of(self._question, [(one.is_user, one.tokens) for one in messages])
        return ranking.fuse([*ranked, *others], near, lengths)

    def _read(self, seqs: Iterable[int]) -> None:
        """Read these messages. Those that are not part of a turn are skipped."""
        short = f"CASE WHEN length(content) <= {SHORT_CHARS} THEN content END"
        columns = f"id, place, role, created_at, {short}, token_count, terms"
        for *row, terms in self._corpus.read(seqs, columns):
            one = _message(*row)
            passages = tuple((terms or "").split("\n"))
            self._messages[one.seq] = Indexed(one.seq, one.role == "user", one.tokens, passages, one.on)
            if one.text is not None:
                self._short[one.seq] = one


def _look_up(corpus: Corpus, question: Question) -> Matches:
    """Find where the words of a question occur in `corpus`."""
    tokens = [word.token for word in question.words]
    reach = max(MIN_PER_TERM, min(MAX_PER_TERM, MAX_MATCHES // max(1, len(tokens))))
    if corpus.before <= READ_WHOLE:
        reach = corpus.before
    found = corpus.postings(tokens, reach)
    matches = ranking.weigh(question, found, reach, corpus.before - 1)
    if together := ranking.words_to_combine(matches, [len(one) >= reach for one in found]):
        (seqs,) = corpus.postings([" ".join(tokens[at] for at in together)], MAX_TOGETHER)
        matches.add(sum(1 << at for at in together), seqs)
    return matches
