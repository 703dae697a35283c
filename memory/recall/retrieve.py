"""Recall: from the question that is asked now to excerpts of earlier turns that it is about, however long ago.

A few selects by key or index, whatever the chat's length: finds of the question's terms; who said the most promising
messages, and how long they are; the terms of the best of them; the texts of what is shown where they are long. Those
near in meaning are handed in (`memory.recall.embeddings`). What is asked is read in `memory.recall.query`, whether it
calls for earlier turns is decided in `memory.recall.relevance`, what is good in `memory.recall.ranking`, what is
shown in `memory.recall.ranking`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from uuid import UUID

from conversations.models import Chat
from memory.context.load import Newest
from memory.context.plan import Plan, Recall
from memory.context.planner import choose
from memory.history.turns import Turn
from memory.limits import MemoryLimits, RecallMode
from memory.models import ConversationBrief
from memory.policies import StateSection
from memory.recall import index
from memory.recall.analysis.terms import terms
from memory.recall.candidates import Finds, places, said_together, weigh, with_places
from memory.recall.excerpts import Excerpt, Said
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
    worth_showing,
)
from memory.recall.relevance import decide, is_lean, known_words, room_for

BY_MEANING = 60
"""Messages that are looked at because they are near in meaning."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """Excerpts that fit the question, best first, and the messages that they quote, by seq."""

    excerpts: tuple[Excerpt, ...] = ()
    said: dict[int, Said] = field(default_factory=dict)


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
        return Recalled(tuple(excerpts(ranked, said)), said)

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


@dataclass(frozen=True, slots=True)
class Beside:
    """What is recalled beside a plan: how that was decided, the excerpts, and how the plan is to be made with them."""

    decision: Recall
    found: Recalled = Recalled()
    shape: dict[str, Any] = field(default_factory=dict)
    """Arguments of `memory.context.planner.choose`."""


def recall_beside(
    brief: ConversationBrief,
    span: Newest,
    state: Sequence[StateSection],
    shape: Mapping[str, Any],
    plan: Plan,
    question: str,
    before_seq: int | None,
    near: Sequence[Near] = (),
) -> Beside:
    """What is recalled for a prompt that would else show `plan`, made of `state`, the turns of `span` and `shape`.

    Nothing is even looked for while every turn of the chat is in the prompt word for word anyhow.
    """
    limits: MemoryLimits = shape["limits"]
    if not limits.recalls:
        return Beside(Recall("none", "off"))
    is_shown = {one.from_seq for one in plan.verbatim}
    verbatim = [turn for turn in span.turns if turn.from_seq in is_shown]
    beyond = span.older_turns or brief.folded_through_seq
    if not beyond and len(verbatim) == sum(turn.tokens > 0 for turn in span.turns):
        return Beside(Recall("none", "all_shown"))
    if not question:
        return Beside(Recall("none", "no_words"))
    before = brief.chat.last_seq + 1 if before_seq is None else before_seq
    search = Search(brief.chat, question, before_seq=before, near=near)
    remembered = frozenset(terms("\n".join(section.text for section in state)))
    decision = search.decision(limits.recall, _seqs(verbatim), remembered)
    if decision.sought == "none":
        return Beside(decision)
    if lean := is_lean(decision):
        plan = choose(state, span.turns, **shape, lean=True)
        verbatim = verbatim[-len(plan.verbatim) :] if plan.verbatim else []
    room = room_for(decision, limits, plan.free)
    found = search.recalled(room, _seqs(verbatim))
    return Beside(decision, found, {"excerpts": found.excerpts, "recall_tokens": room, "lean": lean})


def _seqs(turns: Iterable[Turn]) -> Iterator[int]:
    return chain.from_iterable(range(turn.from_seq, turn.through_seq + 1) for turn in turns)


def quoted(chat_id: UUID, plan: Plan) -> dict[int, Said]:
    """The messages that a stored plan quotes, as they stand now, by seq."""
    return index.quoted(chat_id, [quote.seq for quotes in plan.recalled for quote in quotes])


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
