"""A page of a chat's turns: about sixty messages from a seq on, each turn with a mark of where memory has it.

All queries are by (chat, seq) and reach only as far as a page, so that a page costs the same however long the chat
is. Of a long message the beginning is shown, and how much is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet
from django.db.models.functions import Left, Length

from conversations.admin.access import number_in
from conversations.models import ActiveReply, Chat, Message, Role
from memory.context.plan import Plan
from memory.explain.timeline import Fold, Mark, Place, TurnPlaces
from memory.history.turns import StoredMessage, Turn, to_turns
from memory.models import ContextRecord, ConversationBrief

SPAN = 60
"""How many messages a page has, besides those before it of its first turn."""
BEFORE = 16
"""About how many messages a page shows before the one it is opened at."""
TEXT_CHARS = 1500
"""How many characters of a message are shown; the rest is on the message's own page."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One turn of a page."""

    turn: Turn
    mark: Mark
    messages: tuple[Any, ...]
    """Messages with `text`, `missing`, `newer_seq` and `has_prompt`."""
    active: ActiveReply | None
    """The reply that is being written, as far as it was saved."""


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """Turns in order. `older` and `newer` are where the adjacent pages begin; None at that end of the chat."""

    moments: tuple[Moment, ...] = ()
    older: int | None = None
    newer: int | None = None
    at: int | None = None
    """The message that the page was opened at."""


def timeline(
    chat: Chat, brief: ConversationBrief | None, folds: Sequence[Fold], plan: Plan, query: Mapping[str, str]
) -> TimelinePage:
    """The page from `?from=` on, or with the message `?at=`, or else the newest.

    The memory of `chat`, `brief`, was made by `folds`, and its next prompt shows `plan`.
    """
    at, start = number_in(query.get("at")), number_in(query.get("from"))
    if at is not None:
        at = max(1, min(at, chat.last_seq))
        start = at - BEFORE
    elif start is None:
        start = chat.last_seq - SPAN + 1
    rows = _rows(chat, max(1, min(start, chat.last_seq)))
    if not rows:
        return TimelinePage()
    active = ActiveReply.objects.filter(chat=chat).annotate(seq=F("user_message__seq")).first()
    first, last = rows[0].seq, rows[-1].seq
    near = [fold for fold in folds if fold.from_seq <= last and first <= fold.through_seq]
    places = TurnPlaces(plan, brief.folded_through_seq if brief else 0, near, getattr(active, "seq", None))
    moments = []
    for turn in to_turns([StoredMessage.of(row, text=False) for row in rows]):
        mark = places.of(turn)
        own = tuple(row for row in rows if turn.from_seq <= row.seq <= turn.through_seq)
        moments.append(Moment(turn, mark, own, active if mark.place == Place.WAITING else None))
    return TimelinePage(
        tuple(moments),
        older=max(1, first - SPAN) if first > 1 else None,
        newer=last + 1 if last < chat.last_seq else None,
        at=at,
    )


def _rows(chat: Chat, start: int) -> list[Any]:
    """The messages of the page that begins at `start`, as whole turns unless these are very long."""
    questions = Message.objects.filter(chat=chat, role=Role.USER, seq__lte=start).order_by("seq")
    question = questions.values_list("seq", flat=True).last() or 1
    first = question if start - question < SPAN else start
    rows = list(_messages(chat).filter(seq__range=(first, start + SPAN)).order_by("seq"))
    if rows and rows[-1].seq == start + SPAN:
        # The last turn may go on beyond the page: it is left to the next one, unless it is the only one.
        end = next((at for at in range(len(rows) - 1, 0, -1) if rows[at].role == Role.USER), len(rows) - 1)
        rows = rows[:end]
    return rows


def _messages(chat: Chat) -> QuerySet[Message]:
    rows = Message.objects.filter(chat=chat).defer("content", "outline", "metadata", "terms")
    return rows.annotate(
        text=Left("content", TEXT_CHARS),
        missing=Length("content") - Length(Left("content", TEXT_CHARS)),
        newer_seq=F("superseded_by__seq"),
        has_prompt=Exists(ContextRecord.objects.filter(pk=OuterRef("pk"))),
    )
