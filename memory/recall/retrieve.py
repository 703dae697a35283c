"""Recall: find excerpts of earlier turns that a question is about, however far back.

It takes a few selects by key or index, independent of the chat's length: matches of the question's terms; speakers
and lengths of the most promising messages; the terms of the best of them; the texts of those that are shown and long.
Messages that are near in meaning are passed in (`memory.recall.embeddings`). `memory.recall.query` parses the
question, `memory.recall.decision` decides whether it calls for earlier turns, `memory.recall.ranking` which passages
are good and what of them is shown, and `memory.recall.excerpts` renders them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from conversations.models import Chat
from memory.limits import MemoryLimits
from memory.recall.candidates import Matches, promising_seqs, weigh, with_places, words_to_combine
from memory.recall.decision import Recall, decide, known_words
from memory.recall.excerpts import Excerpt, RecalledMessage
from memory.recall.index import MOST_TOGETHER, MessagesRead, matches_per_term, postings, read_messages, sizes
from memory.recall.query import Question, read_question
from memory.recall.ranking import (
    PRESELECT_FACTOR,
    SPARE_FACTOR,
    Lengths,
    Near,
    Ranked,
    Size,
    closest,
    excerpts,
    fuse,
    messages_to_read,
    rank,
    unranked,
    worth_showing,
)

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
