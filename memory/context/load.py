"""Load the rows of a chat that a prompt can show: counts of the newest unfolded turns, then the texts a plan needs.

Counts and lines come first, and text only for what is shown verbatim, so the cost does not grow with the chat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q

from chatmemory.database.compiled import Select
from conversations.models import Message, Role
from memory.context.plan.plan import Plan
from memory.history.rows import COUNTS, MAX_SEQ, stored
from memory.history.tool_steps import Step
from memory.history.turns import StoredMessage, Turn, to_turns
from memory.limits import MAX_TURNS
from memory.models import ConversationBrief

MAX_ROWS = 2 * MAX_TURNS

_NEWEST = Select(
    lambda chat, after, before: (
        Message.objects.filter(chat_id=chat, seq__gt=after, seq__lt=before)
        .order_by("-seq")
        .values_list(*COUNTS)[:MAX_ROWS]
    ),
    *(UUID, int, int),
)


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest unfolded turns before message `before_seq`, oldest first, without text, and their rows."""

    before_seq: int | None
    rows: tuple[StoredMessage, ...]
    turns: tuple[Turn, ...]
    older_turns: int = 0
    """Unfolded turns before these."""

    @property
    def tokens(self) -> int:
        return sum(turn.tokens for turn in self.turns)


def newest(brief: ConversationBrief, before_seq: int | None = None) -> Newest:
    """Return about `MAX_TURNS` of the newest unfolded turns (two rows per turn), before `before_seq` if given."""
    before = MAX_SEQ if before_seq is None else before_seq
    found = _NEWEST.rows(brief.chat_id, brief.folded_through_seq, before)
    rows = [stored(row) for row in reversed(found)]
    if len(found) < MAX_ROWS:
        return Newest(before_seq, tuple(rows), tuple(to_turns(rows)))
    first = next((index for index, row in enumerate(rows) if row.role == Role.USER), 0)
    whole = tuple(rows[first:])
    return Newest(before_seq, whole, tuple(to_turns(whole)), _older_turns(brief, whole[0].seq))


def _older_turns(brief: ConversationBrief, before_seq: int) -> int:
    """The number of unfolded turns before a message: questions with a text, or whose answer has one.

    Only for chats that have very many.
    """
    asked = Message.objects.filter(
        chat_id=brief.chat_id, seq__gt=brief.folded_through_seq, seq__lt=before_seq, role=Role.USER
    )
    answer = Message.objects.filter(reply_to=OuterRef("pk"), token_count__gt=0)
    return asked.filter(Q(token_count__gt=0) | Exists(answer)).count()


def last_reply(span: Newest) -> UUID | None:
    """The id of the newest reply in `span`; None if there is none."""
    return next((turn.last_assistant_id for turn in reversed(span.turns) if turn.last_assistant_id), None)


def outline(chat_id: UUID, message_id: UUID | str | None) -> str:
    """Return the current outline of a reply; "" for None, and for a reply that no longer exists."""
    if not message_id:
        return ""
    found = Message.objects.filter(pk=message_id, chat_id=chat_id).values_list("outline", flat=True)
    return found.first() or ""


def with_text(chat_id: UUID, rows: Sequence[StoredMessage], turns: Sequence[Turn], plan: Plan) -> list[Turn]:
    """Return `turns`, which were made of `rows`, with the texts of those that `plan` shows verbatim."""
    verbatim = {seq for low, high in _shown(plan) for seq in range(low, high + 1)}
    wanted = [row for row in rows if row.seq in verbatim]
    texts = _texts(chat_id, [row.seq for row in wanted if row.token_count or row.role != Role.USER])
    made = to_turns([_loaded(row, *texts.get(row.seq, ("", None))) for row in wanted])
    whole = {turn.from_seq: turn for turn in made}
    return [_said(turn, whole.get(turn.from_seq)) for turn in turns]


def planned_turns(chat_id: UUID, plan: Plan) -> list[Turn]:
    """Return the turns that a stored plan names, as they are now, with text where it shows them verbatim."""
    spans = sorted([*((line.from_seq, line.through_seq) for line in plan.lines), *_shown(plan)])
    if not spans:
        return []
    messages = Message.objects.filter(
        chat_id=chat_id, seq__range=(spans[0][0], max(high for _, high in spans))
    )
    rows = [stored(row) for row in messages.order_by("seq").values_list(*COUNTS)]
    return with_text(chat_id, rows, to_turns(rows), plan)


def _shown(plan: Plan) -> Iterable[tuple[int, int]]:
    return ((shown.from_seq, shown.through_seq) for shown in plan.verbatim)


def _loaded(row: StoredMessage, content: str, payload: Mapping[str, Any] | None) -> StoredMessage:
    return replace(row, content=content, payload=payload)


def steps(chat_id: UUID, seqs: Sequence[int]) -> tuple[Step, ...]:
    """Return messages of a turn that was open when they were sent, as they are now."""
    if not seqs:
        return ()
    rows = Message.objects.filter(chat_id=chat_id, seq__in=seqs).order_by("seq")
    return tuple(Step(*row) for row in rows.values_list("role", "content", "payload"))


def _texts(chat_id: UUID, seqs: Sequence[int]) -> dict[int, tuple[str, Any]]:
    found = _texts_of(len(seqs)).rows(chat_id, *seqs) if seqs else ()
    return {seq: (content, payload) for seq, content, payload in found}


@cache
def _texts_of(number: int) -> Select[Message]:
    """The query for the texts of `number` messages. One is cached per number, and `MAX_TURNS` bounds the numbers."""
    kinds = [int] * number
    return Select(
        lambda chat, *seqs: Message.objects.filter(chat_id=chat, seq__in=seqs).values_list(
            "seq", "content", "payload"
        ),
        UUID,
        *kinds,
    )


def _said(turn: Turn, whole: Turn | None) -> Turn:
    """Return `turn` with the texts of `whole`, which was made of those of its rows that are shown."""
    if whole is None:
        return turn
    return replace(
        turn, user=whole.user, assistant=whole.assistant, steps=whole.steps, attachments=whole.attachments
    )
