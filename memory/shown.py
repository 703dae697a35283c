"""The rows of a chat that a prompt can show: the newest unfolded ones, and the text of those that a plan wants.

Counts and lines come first, text only for what is shown verbatim, so that the cost does not grow with the chat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from conversations.models import Message, Role
from memory.limits import MAX_TURNS
from memory.models import ConversationBrief
from memory.planned import Plan
from memory.turns import StoredMessage, Turn, to_turns

ROWS_PER_TURN = 2
_COUNTS = ("id", "seq", "role", "status", "superseded_by_id", "token_count", "line")


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest unfolded turns, oldest first, without text, and their rows; and how many unfolded turns are older."""

    rows: tuple[StoredMessage, ...]
    turns: tuple[Turn, ...]
    older_turns: int


def newest(brief: ConversationBrief, before_seq: int | None = None, turns: int = MAX_TURNS) -> Newest:
    """The newest `turns` unfolded turns (about: two rows each), those before message `before_seq` if it is given."""
    messages = Message.objects.filter(chat_id=brief.chat_id, seq__gt=brief.folded_through_seq)
    if before_seq is not None:
        messages = messages.filter(seq__lt=before_seq)
    limit = turns * ROWS_PER_TURN
    rows = [_stored(row) for row in messages.order_by("-seq").values_list(*_COUNTS)[:limit]]
    rows.reverse()
    if len(rows) < limit:
        return Newest(tuple(rows), tuple(to_turns(rows)), 0)
    first = next((index for index, row in enumerate(rows) if row.role == Role.USER), 0)
    whole = tuple(rows[first:])
    turns_of_them = tuple(to_turns(whole))
    counted = sum(turn.tokens > 0 for turn in turns_of_them)
    return Newest(whole, turns_of_them, max(0, brief.unfolded_turns - counted))


def with_text(chat_id: UUID, rows: Sequence[StoredMessage], turns: Sequence[Turn], plan: Plan) -> list[Turn]:
    """`turns`, which were made of `rows`: those that `plan` shows verbatim with their text."""
    verbatim = {seq for low, high in _shown(plan) for seq in range(low, high + 1)}
    wanted = [row for row in rows if row.seq in verbatim]
    texts = _texts(chat_id, [row.seq for row in wanted if row.token_count])
    made = to_turns([replace(row, content=texts.get(row.seq, "")) for row in wanted])
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


def _texts(chat_id: UUID, seqs: Sequence[int]) -> dict[int, str]:
    rows = Message.objects.filter(chat_id=chat_id, seq__in=seqs)
    return dict(rows.values_list("seq", "content")) if seqs else {}


def _said(turn: Turn, whole: Turn | None) -> Turn:
    """`turn` with the texts of `whole`, which was made of its rows that are shown."""
    return turn if whole is None else replace(turn, user=whole.user, assistant=whole.assistant)


def _stored(row: tuple[Any, ...]) -> StoredMessage:
    message_id, seq, role, status, superseded_by, token_count, line = row
    return StoredMessage(message_id, seq, role, status, superseded_by is not None, token_count, line=line)
