"""Recall: from the question that is asked now to excerpts of earlier turns that it is about, however long ago.

A few selects by key or index, whatever the chat's length: finds of the question's terms; who said the most promising
messages, and how long they are; the terms of the best of them; the texts of what is shown where they are long. Those
near in meaning are handed in (`memory.recall.embeddings`). What is asked is read in `memory.recall.query`, whether it
calls for earlier turns is decided in `memory.recall.decision`, which passages are good, and what of them
is shown, in `memory.recall.ranking`, how an excerpt reads in `memory.recall.excerpts`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from conversations.models import Chat
from memory.limits import RecallMode
from memory.recall.candidates import Finds, places, said_together, weigh, with_places
from memory.recall.decision import Recall, decide, known_words
from memory.recall.excerpts import Excerpt, RecalledMessage
from memory.recall.index import MOST_TOGETHER, Looked, look, most_of, postings, sizes
from memory.recall.query import Question, read_question
from memory.recall.ranking import (
    SPARE,
    WIDER,
    Lengths,
    Near,
    Ranked,
    Size,
    closest,
    excerpts,
    fuse,
    looked_at,
    rank,
    unranked,
    with_updates,
    worth_showing,
)

BY_MEANING = 60
"""Messages that are looked at because they are near in meaning."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """Excerpts that fit the question, best first, and the messages that they quote, by seq."""

    excerpts: tuple[Excerpt, ...] = ()
    said: dict[int, RecalledMessage] = field(default_factory=dict)


class Search:
    """One question's search of its chat: what its words find, whether that is worth a look, and what it comes to."""

    def __init__(self, chat: Chat, question: str, *, before_seq: int, near: Sequence[Near] = ()) -> None:
        """Looks the question's words up, in messages before `before_seq`. `near`: those that mean something like it."""
        self._chat_id = chat.pk
        self._before_seq = before_seq
        self._near = [one for one in near if one.seq < before_seq]
        self._question = read_question(question, chat.owner_id)
        self._finds = _look_up(chat.pk, self._question, before_seq)

    def decision(self, mode: RecallMode, shown: Iterable[int], remembered: Collection[str]) -> Recall:
        """Whether earlier turns are worth their tokens, beside the messages `shown` and the terms `remembered`."""
        if not self._finds.at and not self._near:
            return Recall("none", "nothing_new" if self._question.words else "no_words")
        known = known_words(self._question, self._finds, shown, remembered)
        return decide(mode, self._question, self._finds, known)

    def recalled(self, room: int, shown: Iterable[int] = ()) -> Recalled:
        """What there is on the question, in about `room` tokens or some more; nothing of the messages `shown`."""
        if room <= 0:
            return Recalled()
        hidden = frozenset(shown)
        ranked, looked = self._ranked(looked_at(room), hidden)
        if near := [one for one in self._near if one.seq not in hidden]:
            ranked, looked = _fused(self._question, ranked, looked, near)
        ranked = worth_showing(ranked, SPARE * room)
        if not ranked:
            return Recalled()
        said = looked.said({one.message.seq for one in ranked})
        return Recalled(tuple(with_updates(excerpts(ranked, said), said)), said)

    def ranked(self, room: int, shown: Iterable[int] = ()) -> list[Ranked]:
        """The passages that `recalled` chooses from by words alone, best first, with their scores."""
        return self._ranked(looked_at(room), frozenset(shown))[0]

    @property
    def question(self) -> Question:
        """What is looked for."""
        return self._question

    def _ranked(self, most: int, hidden: frozenset[int]) -> tuple[list[Ranked], Looked]:
        """The passages that have the question's words, best first, and the messages that were looked at for it."""
        asked, finds, last_seq = self._question, self._finds, self._before_seq - 1
        promising = [seq for seq in places(finds, hidden, WIDER * most) if seq <= last_seq]
        there = sizes(self._chat_id, promising)
        looked = look(self._chat_id, closest(asked, finds, there, most))
        lengths = Lengths.of(asked, there.values())
        return rank(asked, finds, looked.indexed().values(), last_seq, lengths), looked


def _look_up(chat_id: UUID, asked: Question, before_seq: int) -> Finds:
    """Where the words of a question stand in a chat before message `before_seq`."""
    tokens = [word.token for word in asked.words]
    reach = most_of(len(tokens))
    found = postings(chat_id, tokens, before_seq=before_seq, most=reach)
    finds = weigh(asked, [one.seqs for one in found], reach, before_seq - 1)
    if together := said_together(finds, [one.is_cut for one in found]):
        joined = [" ".join(tokens[at] for at in ats) for ats in together]
        both = postings(chat_id, joined, before_seq=before_seq, most=MOST_TOGETHER)
        finds = with_places(finds, together, [one.seqs for one in both])
    return finds


def _fused(
    asked: Question, ranked: Sequence[Ranked], looked: Looked, near: Sequence[Near]
) -> tuple[list[Ranked], Looked]:
    """What words found and what is near in meaning, as one list, and all messages that were looked at for it."""
    seqs = {one.seq for one in near[:BY_MEANING]}
    looked |= look(looked.chat_id, seqs - looked.rows.keys())
    by_meaning = seqs - {one.message.seq for one in ranked}
    indexed = looked.indexed()
    others = [unranked(message) for seq, message in indexed.items() if seq in by_meaning]
    lengths = Lengths.of(asked, [Size(message.is_user, message.tokens) for message in indexed.values()])
    return fuse([*ranked, *others], near, lengths), looked
