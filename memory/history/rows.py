"""Load rows of `messages` as turns of one chat after a given seq.

Reads only by (chat, seq), in pages, and only as far as needed: a backlog of ten thousand turns is never in memory
whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Least

from chatmemory.database.compiled import Select
from chatmemory.text.tokens import MESSAGE_OVERHEAD
from conversations.models import Chat, Message, Role, Status
from memory.history.turns import Bite, StoredMessage, Turn, to_turns
from memory.limits import MAX_TURNS

PAGE = 64
"""Messages per query when their texts are needed."""
COUNTS_PAGE = 1000
"""Messages per query when counts and lines are enough."""

COUNTS = ("id", "seq", "role", "status", "superseded_by_id", "token_count", "line")
"""The columns that `stored` reads when no text is needed; with text, "content" and "payload" follow them."""
MAX_SEQ = 2**31 - 1
"""No message has a higher seq: its column holds no higher number."""


def pending_seq(chat_id: UUID) -> int | None:
    """Return the seq of the user message whose turn is not finished: it is being answered, or waits for a tool.

    None if there is no such message.
    """
    found = _PENDING.rows(chat_id)
    return (found[0][0] or found[0][1] or None) if found else None


def each_turn(chat_id: UUID, after_seq: int, before_seq: int | None, *, text: bool) -> Iterator[Turn]:
    """Yield the turns with `after_seq` < seq < `before_seq`, oldest first, reading page by page as needed.

    Both bounds must be turn boundaries. Texts are loaded only with `text`.
    """
    size = PAGE if text else COUNTS_PAGE
    rows: list[StoredMessage] = []
    while True:
        found = _page(chat_id, after_seq, before_seq, text=text, newest=False, size=size)
        rows += found
        turns = to_turns(rows)
        if len(found) < size:
            yield from turns
            return
        yield from turns[:-1]
        rows = [row for row in rows if row.seq >= turns[-1].from_seq]
        after_seq = rows[-1].seq


def counts_between(
    chat_id: UUID, after_seq: int, before_seq: int | None, *, max_tokens: int = MAX_SEQ
) -> tuple[int, int]:
    """The number and the tokens of the turns with `after_seq` < seq < `before_seq`, counted by the database.

    A turn is a question with a text, or whose answer has one. Outputs of tools count whole, and a message for
    `max_tokens` at most.
    """
    rows = Message.objects.filter(chat_id=chat_id, seq__gt=after_seq, seq__lt=before_seq or MAX_SEQ)
    answer = Message.objects.filter(reply_to=OuterRef("pk"), token_count__gt=0)
    turn: Any = Q(role=Role.USER) & (Q(token_count__gt=0) | Exists(answer))
    spoken = Q(superseded_by=None, token_count__gt=0) & ~Q(status=Status.FAILED)
    found = rows.aggregate(
        turns=Count("pk", filter=turn),
        tokens=Sum(Least("token_count", max_tokens) + MESSAGE_OVERHEAD, filter=spoken),
    )
    return found["turns"], found["tokens"] or 0


def next_bite(chat_id: UUID, after_seq: int, through_seq: int, max_tokens: int) -> Bite | None:
    """Return the oldest turns after `after_seq`, up to `through_seq`, that fit one request. None if they have no text.

    No more texts are loaded than that.
    """
    if through_seq <= after_seq:
        return None
    turns: list[Turn] = []
    left = max_tokens
    for turn in each_turn(chat_id, after_seq, through_seq + 1, text=True):
        turns.append(turn)
        left -= turn.tokens
        if left < 0:
            break
    bite = Bite.of(turns, max_tokens)
    return bite if any(turn.tokens for turn in bite.shown) else None


def newest_turns(
    chat_id: UUID,
    after_seq: int,
    *,
    limit: int = MAX_TURNS,
    before_seq: int | None = None,
) -> list[Turn]:
    """Return the newest turns after `after_seq`, oldest first, without texts: at most `limit` that have any."""
    rows: list[StoredMessage] = []
    page = 2 * limit + 1
    before = before_seq
    while True:
        found = _page(chat_id, after_seq, before, text=False, newest=True, size=page)
        rows = found[::-1] + rows
        whole = to_turns(rows) if len(found) < page else to_turns(rows)[1:]
        if len(found) < page or sum(turn.tokens > 0 for turn in whole) >= limit:
            return _newest(whole, limit)
        before = rows[0].seq


def _newest(turns: Sequence[Turn], limit: int) -> list[Turn]:
    """The end of `turns` that contains `limit` turns with text, or all of it."""
    with_text = 0
    for index in range(len(turns) - 1, -1, -1):
        with_text += turns[index].tokens > 0
        if with_text == limit:
            return list(turns[index:])
    return list(turns)


def _page(
    chat_id: UUID, after_seq: int, before_seq: int | None, *, text: bool, newest: bool, size: int
) -> list[StoredMessage]:
    """Return one page of messages with `after_seq` < seq < `before_seq`, in query order."""
    before = MAX_SEQ if before_seq is None else before_seq
    return [stored(row) for row in _pages(text, newest, size).rows(chat_id, after_seq, before)]


_PENDING = Select(
    lambda chat: Chat.objects.filter(pk=chat).values_list("active_reply__user_message__seq", "open_seq"), UUID
)


@cache
def _pages(text: bool, newest: bool, size: int) -> Select[Message]:
    """The query for a page. One is cached per size, and `MAX_TURNS` bounds those of windows."""

    def page(chat_id: UUID, after_seq: int, before_seq: int) -> QuerySet[Message, Any]:
        rows = Message.objects.filter(chat_id=chat_id, seq__gt=after_seq, seq__lt=before_seq)
        fields = (*COUNTS, "content", "payload") if text else COUNTS
        return rows.order_by("-seq" if newest else "seq").values_list(*fields)[:size]

    return Select(page, UUID, int, int)


def stored(row: Sequence[Any]) -> StoredMessage:
    """Return the message of a row with the columns `COUNTS`, and with its text if they follow."""
    message_id, seq, role, status, superseded_by, token_count, line, *texts = row
    return StoredMessage(
        id=message_id,
        seq=seq,
        role=role,
        status=status,
        superseded=superseded_by is not None,
        token_count=token_count,
        content=texts[0] if texts else "",
        line=line,
        payload=texts[1] if texts else None,
    )
