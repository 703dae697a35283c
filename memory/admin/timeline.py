"""A page of a chat's turns: about thirty at a time, by seq, each with a mark of where memory has it.

All queries are by (chat, seq) and reach only as far as a page, so that a page costs the same however long the chat
is. Of a long message the beginning is shown, and how much is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Exists, F, OuterRef, QuerySet
from django.db.models.functions import Left, Length

from conversations.models import ActiveReply, Chat, Message, Role
from memory.context.plan import Plan
from memory.explain.timeline import Fold, Mark, Place, TurnPlaces
from memory.history.turns import StoredMessage, Turn, to_turns
from memory.models import ContextRecord, ConversationBrief

TURNS = 30
"""The most turns on a page."""
ROWS = 90
"""The most messages on a page: a question that was regenerated has many replies."""
BEFORE = 16
"""About how many messages a page shows before the one it is opened at."""
TEXT_CHARS = 1500
"""How many characters of a message are shown; the rest is on the message's own page."""
_MAX_SEQ = 2**31 - 2


class PageAt(NamedTuple):
    """The page to show: turns that end before a message, begin after one, or include one; else the newest."""

    before: int | None = None
    after: int | None = None
    at: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str], chat: Chat) -> PageAt:
        """The page that a query string requests. What is no message of the chat is no error."""
        for name in cls._fields:
            number = query.get(name, "").strip()
            if number.isdecimal() and len(number) < 11:
                seq = min(int(number), _MAX_SEQ)
                return cls(**{name: min(max(1, seq), max(1, chat.last_seq)) if name == "at" else seq})
        return cls()

    @property
    def is_forward(self) -> bool:
        """Whether the page is read forwards, from its oldest turn."""
        return self.at is not None or self.after is not None


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
    """Turns in order. `older` and `newer` are the seqs of the adjacent pages; None at that end of the chat."""

    moments: tuple[Moment, ...] = ()
    older: int | None = None
    newer: int | None = None


def timeline(
    chat: Chat, brief: ConversationBrief | None, folds: Sequence[Fold], plan: Plan, page: PageAt
) -> TimelinePage:
    """A page of `chat`, of whose memory `brief` is made by `folds`, and whose next prompt shows `plan`."""
    rows, more_before, more_after = _rows(chat, page)
    if not rows:
        return TimelinePage()
    active = ActiveReply.objects.filter(chat=chat).annotate(seq=F("user_message__seq")).first()
    turns = to_turns([StoredMessage.of(row, text=False) for row in rows])
    turns = turns[:TURNS] if page.is_forward else turns[-TURNS:]
    first, last = turns[0].from_seq, turns[-1].through_seq
    near = [fold for fold in folds if fold.from_seq <= last and first <= fold.through_seq]
    places = TurnPlaces(plan, brief.folded_through_seq if brief else 0, near, getattr(active, "seq", None))
    moments = []
    for turn in turns:
        mark = places.of(turn)
        own = tuple(row for row in rows if turn.from_seq <= row.seq <= turn.through_seq)
        moments.append(Moment(turn, mark, own, active if mark.place == Place.WAITING else None))
    return TimelinePage(
        tuple(moments),
        first if more_before or first > rows[0].seq else None,
        last if more_after or last < rows[-1].seq else None,
    )


def _rows(chat: Chat, page: PageAt) -> tuple[list[Any], bool, bool]:
    """The messages of a page, as whole turns if they fit, and whether there are messages before and after them."""
    if not page.is_forward:
        before = chat.last_seq + 1 if page.before is None else page.before
        rows = list(_messages(chat).filter(seq__lt=before).order_by("-seq")[: ROWS + 1])[::-1]
        is_cut = len(rows) > ROWS
        if is_cut:
            first = next((at for at, row in enumerate(rows) if at and row.role == Role.USER), 1)
            rows = rows[first:]
        return rows, is_cut, before <= chat.last_seq
    start = (page.after or 0) + 1
    if page.at is not None:  # from the question of a turn some way before it
        questions = Message.objects.filter(chat=chat, role=Role.USER, seq__lte=max(1, page.at - BEFORE))
        found = questions.order_by("-seq").values_list("seq", flat=True).first() or 1
        start = found if page.at - found < ROWS // 2 else page.at
    rows = list(_messages(chat).filter(seq__gte=start).order_by("seq")[: ROWS + 1])
    is_cut = len(rows) > ROWS
    if is_cut:
        # Without the last turn, which may go on, unless it is the only one.
        last = next((at for at in range(ROWS, 0, -1) if rows[at].role == Role.USER), ROWS)
        rows = rows[:last]
    return rows, start > 1, is_cut


def _messages(chat: Chat) -> QuerySet[Message]:
    rows = Message.objects.filter(chat=chat).defer("content", "outline", "metadata", "terms")
    return rows.annotate(
        text=Left("content", TEXT_CHARS),
        missing=Length("content") - Length(Left("content", TEXT_CHARS)),
        newer_seq=F("superseded_by__seq"),
        has_prompt=Exists(ContextRecord.objects.filter(pk=OuterRef("pk"))),
    )
