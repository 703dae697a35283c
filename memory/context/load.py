"""The rows of a chat that a prompt can show: the newest unfolded ones, and the text of those that a plan wants.

Counts and lines come first, text only for what is shown verbatim, so that the cost does not grow with the chat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import QuerySet, Subquery

from chatmemory.database.compiled import Select
from conversations.models import Message, Role
from memory.context.plan import Plan
from memory.history.tool_steps import Step
from memory.history.turns import StoredMessage, Turn, to_turns
from memory.limits import MAX_TURNS
from memory.models import ConversationBrief

ROWS_PER_TURN = 2
_MAX_SEQ = 2**31 - 1
_COUNTS = ("id", "seq", "role", "status", "superseded_by_id", "token_count", "line")


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest unfolded turns, oldest first, without text, and their rows; and how many unfolded turns are older."""

    rows: tuple[StoredMessage, ...]
    turns: tuple[Turn, ...]
    older_turns: int


def newest(brief: ConversationBrief, before_seq: int | None = None, turns: int = MAX_TURNS) -> Newest:
    """The newest `turns` unfolded turns (about: two rows each), those before message `before_seq` if it is given."""
    limit = turns * ROWS_PER_TURN
    before = _MAX_SEQ if before_seq is None else before_seq
    found = _unfolded_rows(limit).taken(brief.chat_id, brief.chat.owner_id)
    if found is None:
        found = _newest_rows(limit).rows(brief.chat_id, brief.folded_through_seq, before)
    rows = [row for row in map(_stored, reversed(found)) if brief.folded_through_seq < row.seq < before]
    if len(found) < limit:
        return Newest(tuple(rows), tuple(to_turns(rows)), 0)
    first = next((index for index, row in enumerate(rows) if row.role == Role.USER), 0)
    whole = tuple(rows[first:])
    turns_of_them = tuple(to_turns(whole))
    counted = sum(turn.tokens > 0 for turn in turns_of_them)
    return Newest(whole, turns_of_them, max(0, brief.unfolded_turns - counted))


def read_ahead(chat_id: UUID, owner_id: int) -> None:
    """Have read what `newest` asks for in this transaction, by what is folded as it begins. Nothing of a stranger's."""
    _unfolded_rows(MAX_TURNS * ROWS_PER_TURN).ahead(chat_id, owner_id)


def last_reply(span: Newest) -> UUID | None:
    """The newest reply that stands among `span`; None if there is none."""
    return next((turn.last_assistant_id for turn in reversed(span.turns) if turn.last_assistant_id), None)


def outline(chat_id: UUID, message_id: UUID | str | None) -> str:
    """The outline of a reply as it stands now; "" for None, and for one that is no more."""
    if not message_id:
        return ""
    found = Message.objects.filter(pk=message_id, chat_id=chat_id).values_list("outline", flat=True)
    return found.first() or ""


def with_text(chat_id: UUID, rows: Sequence[StoredMessage], turns: Sequence[Turn], plan: Plan) -> list[Turn]:
    """`turns`, which were made of `rows`: those that `plan` shows verbatim with their text."""
    verbatim = {seq for low, high in _shown(plan) for seq in range(low, high + 1)}
    wanted = [row for row in rows if row.seq in verbatim]
    texts = _texts(chat_id, [row.seq for row in wanted if row.token_count or row.role != Role.USER])
    made = to_turns([_loaded(row, *texts.get(row.seq, ("", None))) for row in wanted])
    whole = {turn.from_seq: turn for turn in made}
    return [_said(turn, whole.get(turn.from_seq)) for turn in turns]


def planned_turns(chat_id: UUID, plan: Plan) -> list[Turn]:
    """The turns that a stored plan names, as they stand now: with text where it shows them verbatim."""
    spans = sorted([*((line.from_seq, line.through_seq) for line in plan.lines), *_shown(plan)])
    if not spans:
        return []
    messages = Message.objects.filter(
        chat_id=chat_id, seq__range=(spans[0][0], max(high for _, high in spans))
    )
    rows = [_stored(row) for row in messages.order_by("seq").values_list(*_COUNTS)]
    return with_text(chat_id, rows, to_turns(rows), plan)


def _shown(plan: Plan) -> Iterable[tuple[int, int]]:
    return ((shown.from_seq, shown.through_seq) for shown in plan.verbatim)


@cache
def _newest_rows(limit: int) -> Select[Message]:
    return Select(lambda chat, after, before: _rows_between(chat, after, before)[:limit], UUID, int, int)


@cache
def _unfolded_rows(limit: int) -> Select[Message]:
    def unfolded(chat_id: UUID, owner_id: int) -> QuerySet[Message, Any]:
        folded = ConversationBrief.objects.filter(pk=chat_id, chat__owner=owner_id).values(
            "folded_through_seq"
        )
        return _rows_between(chat_id, 0, _MAX_SEQ).filter(seq__gt=Subquery(folded))[:limit]

    return Select(unfolded, UUID, int)


def _rows_between(chat_id: UUID, after: int, before: int) -> QuerySet[Message, Any]:
    messages = Message.objects.filter(chat_id=chat_id, seq__gt=after, seq__lt=before)
    return messages.order_by("-seq").values_list(*_COUNTS)


def _loaded(row: StoredMessage, content: str, payload: Mapping[str, Any] | None) -> StoredMessage:
    return replace(row, content=content, payload=payload)


def steps(chat_id: UUID, seqs: Sequence[int]) -> tuple[Step, ...]:
    """Messages of a turn that went on when they were sent, as they stand now."""
    if not seqs:
        return ()
    rows = Message.objects.filter(chat_id=chat_id, seq__in=seqs).order_by("seq")
    return tuple(Step(*row) for row in rows.values_list("role", "content", "payload"))


def _texts(chat_id: UUID, seqs: Sequence[int]) -> dict[int, tuple[str, Any]]:
    found = _texts_of(len(seqs)).rows(chat_id, *seqs) if seqs else ()
    return {seq: (content, payload) for seq, content, payload in found}


@cache
def _texts_of(number: int) -> Select[Message]:
    """The texts of so many messages. There are never more than `MAX_TURNS` turns, so there are not many of these."""
    kinds = [int] * number
    return Select(
        lambda chat, *seqs: Message.objects.filter(chat_id=chat, seq__in=seqs).values_list(
            "seq", "content", "payload"
        ),
        UUID,
        *kinds,
    )


def _said(turn: Turn, whole: Turn | None) -> Turn:
    """`turn` with the texts of `whole`, which was made of its rows that are shown."""
    if whole is None:
        return turn
    return replace(
        turn, user=whole.user, assistant=whole.assistant, steps=whole.steps, attachments=whole.attachments
    )


def _stored(row: Sequence[Any]) -> StoredMessage:
    message_id, seq, role, status, superseded_by, token_count, line = row
    return StoredMessage(message_id, seq, role, status, superseded_by is not None, token_count, line=line)
