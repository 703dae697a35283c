"""Recall: from the question that is asked now to excerpts of earlier turns that it is about, however long ago.

A few selects by key or index, whatever the chat's length: finds of the question's terms, the stored terms of the most
promising messages, the texts of the best. Turns that are near in meaning are handed in (`memory.embeddings`). What is
asked is read in `memory.questions`, what is good is decided in `memory.ranking`, what is shown in `memory.recalling`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from chatmemory.prepared import Select
from conversations.models import Chat, Message, Role, Status
from memory.excerpts import Excerpt, Said
from memory.finds import said_together, shortlist, weigh, with_places
from memory.fusing import fuse
from memory.limits import MemoryLimits
from memory.models import ConversationBrief
from memory.planned import Plan
from memory.questions import Question, read_question
from memory.ranking import Indexed, Ranked, rank, unranked
from memory.recall_index import most_of, postings
from memory.recalling import as_many_as_fit, excerpts, looked_at, worth_showing
from memory.shown import Newest

AT_ONCE = 16
"""Rows are asked for in multiples of so many, so that there are few selects to compile."""

_LIVE = (Status.COMPLETE, Status.INCOMPLETE, Status.CANCELLED)


@dataclass(frozen=True, slots=True)
class Recalled:
    """Excerpts that fit the question, best first, and the messages that they quote, by seq."""

    excerpts: tuple[Excerpt, ...] = ()
    said: dict[int, Said] = field(default_factory=dict)


def recall_beside(
    brief: ConversationBrief,
    span: Newest,
    plan: Plan,
    question: str,
    before_seq: int | None,
    limits: MemoryLimits,
    window_turns: int,
    near: Sequence[int] = (),
) -> Recalled:
    """What is recalled for a prompt that would else show `plan` of the newest turns `span`.

    Nothing is even looked for while every turn of the chat is in the prompt word for word anyhow.
    """
    room = int(limits.prompt_budget * limits.recall_share)
    verbatim = {shown.from_seq for shown in plan.verbatim}
    beyond = span.older_turns or brief.folded_through_seq
    if not beyond and all(turn.from_seq in verbatim for turn in span.turns if turn.tokens):
        return Recalled()
    if not limits.enabled or not room or not question:
        return Recalled()
    window = [turn for turn in span.turns[-window_turns:] if turn.from_seq in verbatim]
    shown = [seq for turn in window for seq in range(turn.from_seq, turn.through_seq + 1)]
    before = brief.chat.last_seq + 1 if before_seq is None else before_seq
    return recall(brief.chat, question, before_seq=before, room=room, shown=shown, near=near)


def recall(
    chat: Chat,
    question: str,
    *,
    before_seq: int,
    room: int,
    shown: Iterable[int] = (),
    near: Sequence[int] = (),
) -> Recalled:
    """What `chat` has on `question` before message `before_seq`, in about `room` tokens or some more.

    Nothing of the messages `shown`. `near`: where turns begin that mean something like it, the nearest first.
    """
    if room <= 0:
        return Recalled()
    asked, hidden = read_question(question, chat.owner_id), frozenset(shown)
    found = _ranked(chat.pk, asked, before_seq, hidden, looked_at(room)) if asked.words else []
    ranked = worth_showing(found, room)
    if near:
        ranked = _fused(chat.pk, ranked, [seq for seq in near if seq < before_seq], hidden, room)
    if not ranked:
        return Recalled()
    said = _said(chat.pk, [side.message.seq for one in ranked for side in one.sides])
    return Recalled(tuple(excerpts(ranked, said)), said)


def quoted(chat_id: UUID, plan: Plan) -> dict[int, Said]:
    """The messages that a stored plan quotes, as they stand now, by seq."""
    return _said(chat_id, [quote.seq for quotes in plan.recalled for quote in quotes])


def _ranked(
    chat_id: UUID, asked: Question, before_seq: int, shown: frozenset[int], most: int
) -> list[Ranked]:
    tokens = [word.token for word in asked.words]
    reach = most_of(len(tokens))
    found = postings(chat_id, tokens, before_seq=before_seq, most=reach)
    last_seq = before_seq - 1
    finds = weigh(asked, [one.seqs for one in found], reach, last_seq)
    if together := said_together(finds, [one.is_cut for one in found]):
        joined = [" ".join(tokens[at] for at in ats) for ats in together]
        both = postings(chat_id, joined, before_seq=before_seq)
        finds = with_places(finds, together, [one.seqs for one in both])
    seqs = shortlist(finds, shown, most)
    wanted = {seq + step for seq in seqs for step in (-1, 0, 1)} - shown
    messages = _indexed(chat_id, [seq for seq in wanted if 0 < seq < before_seq])
    return rank(asked, finds, messages, seqs, last_seq)


def _fused(
    chat_id: UUID, ranked: Sequence[Ranked], near: Sequence[int], hidden: frozenset[int], room: int
) -> list[Ranked]:
    """What words found and what is near in meaning, as one list."""
    turns = {one.from_seq: one for one in ranked}
    new = {seq + step for seq in near if seq not in turns for step in (0, 1)} - hidden
    for one in unranked(_indexed(chat_id, sorted(new))):
        turns.setdefault(one.from_seq, one)
    order = fuse([one.from_seq for one in ranked], [seq for seq in near if seq in turns])
    return as_many_as_fit([turns[seq] for seq in order], room)


def _indexed(chat_id: UUID, seqs: Sequence[int]) -> dict[int, Indexed]:
    """The live ones of these messages. Others are passed over, as if they were not there."""
    return {
        seq: Indexed(seq, role == Role.USER, tokens, tuple((terms or "").split("\n")))
        for seq, role, tokens, terms in _rows(_indexed_of, chat_id, seqs)
    }


def _said(chat_id: UUID, seqs: Sequence[int]) -> dict[int, Said]:
    return {
        seq: Said(message_id, seq, role == Role.USER, created_at.date().isoformat(), content, tokens)
        for message_id, seq, role, created_at, content, tokens in _rows(_said_of, chat_id, seqs)
    }


def _rows(select: Callable[[int], Select[Message]], chat_id: UUID, seqs: Sequence[int]) -> list[list[Any]]:
    """The messages of these seqs, in order."""
    if not seqs:
        return []
    wanted = sorted(set(seqs))
    filled = wanted + [0] * (-len(wanted) % AT_ONCE)  # no message has seq 0
    return select(len(filled)).rows(chat_id, *filled)


@cache
def _indexed_of(number: int) -> Select[Message]:
    live = {"status__in": _LIVE, "superseded_by": None, "token_count__gt": 0}
    return _select(number, "seq", "role", "token_count", "terms", **live)


@cache
def _said_of(number: int) -> Select[Message]:
    # What was recalled before may have been superseded since: a prompt of then is shown as it was.
    return _select(number, "id", "seq", "role", "created_at", "content", "token_count")


def _select(number: int, *fields: str, **where: Any) -> Select[Message]:
    def make(chat_id: UUID, *seqs: int) -> QuerySet[Message, Any]:
        rows = Message.objects.filter(chat_id=chat_id, seq__in=seqs, **where)
        return rows.order_by("seq").values_list(*fields)

    return Select(make, UUID, *[int] * number)
