"""Recall: from the question that is asked now to excerpts of earlier turns that it is about, however long ago.

A few selects by key or index, whatever the chat's length: finds of the question's terms, the most promising messages,
the texts of the best where they are long. Those near in meaning are handed in (`memory.embeddings`). What is asked is
read in `memory.questions`, what is good is decided in `memory.ranking`, what is shown in `memory.recalling`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from conversations.models import Chat
from memory import recall_rows
from memory.excerpts import Excerpt, Said
from memory.finds import said_together, shortlist, weigh, with_places
from memory.fusing import Near, fuse
from memory.limits import MemoryLimits
from memory.models import ConversationBrief
from memory.planned import Plan
from memory.questions import Question, read_question
from memory.ranking import Ranked, rank, unranked
from memory.recall_index import MOST_TOGETHER, most_of, postings
from memory.recall_rows import Looked, look
from memory.recalling import excerpts, looked_at, worth_showing
from memory.shown import Newest

BY_MEANING = 60
"""Messages that are looked at because they are near in meaning."""


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
    near: Sequence[Near] = (),
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
    near: Sequence[Near] = (),
) -> Recalled:
    """What `chat` has on `question` before message `before_seq`, in about `room` tokens or some more.

    Nothing of the messages `shown`. `near`: messages that mean something like it.
    """
    if room <= 0:
        return Recalled()
    asked, hidden = read_question(question, chat.owner_id), frozenset(shown)
    found, looked = _ranked(chat.pk, asked, before_seq, hidden, looked_at(room))
    ranked = worth_showing(found, room)
    if near := [one for one in near if one.seq < before_seq and one.seq not in hidden]:
        ranked, looked = _fused(ranked, looked, near)
        ranked = worth_showing(ranked, room)
    if not ranked:
        return Recalled()
    said = looked.said({one.message.seq for one in ranked})
    return Recalled(tuple(excerpts(ranked, said)), said)


def quoted(chat_id: UUID, plan: Plan) -> dict[int, Said]:
    """The messages that a stored plan quotes, as they stand now, by seq."""
    return recall_rows.quoted(chat_id, [quote.seq for quotes in plan.recalled for quote in quotes])


def _ranked(
    chat_id: UUID, asked: Question, before_seq: int, shown: frozenset[int], most: int
) -> tuple[list[Ranked], Looked]:
    """The turns that have the question's words, best first, and the messages that were looked at for it."""
    tokens = [word.token for word in asked.words]
    reach = most_of(len(tokens))
    found = postings(chat_id, tokens, before_seq=before_seq, most=reach)
    last_seq = before_seq - 1
    finds = weigh(asked, [one.seqs for one in found], reach, last_seq)
    if together := said_together(finds, [one.is_cut for one in found]):
        joined = [" ".join(tokens[at] for at in ats) for ats in together]
        both = postings(chat_id, joined, before_seq=before_seq, most=MOST_TOGETHER)
        finds = with_places(finds, together, [one.seqs for one in both])
    seqs = shortlist(finds, shown, most)
    looked = look(chat_id, [seq for seq in seqs if 0 < seq < before_seq])
    return rank(asked, finds, looked.indexed().values(), last_seq), looked


def _fused(ranked: Sequence[Ranked], looked: Looked, near: Sequence[Near]) -> tuple[list[Ranked], Looked]:
    """What words found and what is near in meaning, as one list, and all messages that were looked at for it."""
    seqs = {one.seq for one in near[:BY_MEANING]}
    looked |= look(looked.chat_id, seqs - looked.rows.keys())
    by_meaning = seqs - {one.message.seq for one in ranked}
    others = [unranked(message) for seq, message in looked.indexed().items() if seq in by_meaning]
    return fuse([*ranked, *others], near), looked
