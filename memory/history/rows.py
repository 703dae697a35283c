"""Load what was said in one chat: turns after a given seq, the last question, the open turn.

Reads only by (chat, seq), in pages, and only as far as needed: a backlog of ten thousand turns is never in memory
whole.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, Exists, F, OuterRef, Q, QuerySet, Sum, When, Window
from django.db.models.functions import Coalesce, Least

from chatmemory.database.compiled import Select
from chatmemory.database.owned import ChatKey
from chatmemory.text.tokens import MESSAGE_OVERHEAD
from conversations.models import Chat, Message, Role, Status
from memory.history.turns import COUNTS, Batch, StoredMessage, Turn, before_window, to_turns
from memory.limits import MAX_TURNS

PAGE = 64
"""Messages per query when their texts are needed."""
COUNTS_PAGE = 1000
"""Messages per query when counts and lines are enough."""
MAX_ROWS = 2 * MAX_TURNS + 1
"""Messages per query of the newest ones."""
MAX_SEQ = 2**31 - 1
"""No message has a higher seq: its column holds no higher number."""


def last_question(chat: ChatKey) -> str:
    """Return the last question of a chat, which is about to be answered again."""
    questions = Message.objects.filter(**chat.columns, role=Role.USER).order_by("-seq")
    return questions.values_list("content", flat=True).first() or ""


def pending_seq(chat: ChatKey) -> int | None:
    """Return the seq of the user message whose turn is not finished: it is being answered, or waits for a tool.

    None if there is no such message.
    """
    rows = _PENDING.rows(*chat)
    return (rows[0][0] or rows[0][1] or None) if rows else None


def each_turn(chat: ChatKey, after_seq: int, before_seq: int | None, *, text: bool) -> Iterator[Turn]:
    """Yield the turns with `after_seq` < seq < `before_seq`, oldest first, reading page by page as needed.

    Both bounds must be turn boundaries. Texts are loaded only with `text`.
    """
    select, size = (_WITH_TEXT, PAGE) if text else (_COUNTS_ALONE, COUNTS_PAGE)
    rows: list[StoredMessage] = []
    while True:
        page = [StoredMessage(*row) for row in select.rows(*chat, after_seq, before_seq or MAX_SEQ)]
        rows += page
        turns = to_turns(rows)
        if len(page) < size:
            yield from turns
            return
        yield from turns[:-1]
        rows = [row for row in rows if row.seq >= turns[-1].from_seq]
        after_seq = rows[-1].seq


def next_batch(chat: ChatKey, after_seq: int, through_seq: int, max_tokens: int) -> Batch | None:
    """Return the oldest turns after `after_seq`, up to `through_seq`, that fit one request. None if they have no text.

    No more texts are loaded than that.
    """
    if through_seq <= after_seq:
        return None
    turns: list[Turn] = []
    left = max_tokens
    for turn in each_turn(chat, after_seq, through_seq + 1, text=True):
        turns.append(turn)
        left -= turn.tokens
        if left < 0:
            break
    batch = Batch.of(turns, max_tokens)
    return batch if any(turn.tokens for turn in batch.shown) else None


def counts_between(
    chat: ChatKey, after_seq: int, before_seq: int | None, *, max_tokens: int = MAX_SEQ
) -> tuple[int, int]:
    """The number and the tokens of the turns with `after_seq` < seq < `before_seq`, counted by the database.

    A turn is a question with a text, or whose answer has one. Outputs of tools count whole, and a message for
    `max_tokens` at most.
    """
    rows = _TOTALS.rows(*chat, after_seq, before_seq or MAX_SEQ, max_tokens)
    ((_, turns, tokens),) = rows or [[chat.id, 0, 0]]
    return turns, tokens


def newest_rows(
    chat: ChatKey, after_seq: int, before_seq: int | None, text_tokens: int | None = None
) -> list[StoredMessage]:
    """Return the newest messages with `after_seq` < seq < `before_seq`, oldest first, at most `MAX_ROWS`.

    With `text_tokens`, each has its text as long as the newer ones have at most so many together. So the texts that a
    plan shows mostly come with the counts, and only a chat with giants or long outputs of tools needs a second query.
    """
    span = *chat, after_seq, before_seq or MAX_SEQ
    rows = _NEWEST_COUNTS.rows(*span) if text_tokens is None else _NEWEST.rows(*span, text_tokens)
    return [StoredMessage(*row) for row in reversed(rows)]


def newest_turns(chat: ChatKey, after_seq: int, *, limit: int = MAX_TURNS, before_seq: int | None = None) -> list[Turn]:
    """Return the newest turns after `after_seq`, oldest first, without texts: at most `limit` that have any."""
    rows: list[StoredMessage] = []
    while True:
        page = newest_rows(chat, after_seq, rows[0].seq if rows else before_seq)
        rows = page + rows
        is_all = len(page) < MAX_ROWS
        turns = to_turns(rows)[0 if is_all else 1 :]  # the first one may not be whole
        if is_all or sum(turn.tokens > 0 for turn in turns) >= limit:
            return turns[before_window(turns, limit) :]


def _between(chat_id: UUID, owner_id: int, after_seq: int, before_seq: int) -> QuerySet[Message]:
    return Message.objects.filter(chat_id=chat_id, owner_id=owner_id, seq__gt=after_seq, seq__lt=before_seq)


def _totals(chat_id: UUID, owner_id: int, after_seq: int, before_seq: int, max_tokens: int) -> QuerySet[Message, Any]:
    answer = Message.objects.filter(reply_to=OuterRef("pk"), owner_id=owner_id, token_count__gt=0)
    turn: Any = Q(role=Role.USER) & (Q(token_count__gt=0) | Exists(answer))
    spoken = Q(superseded_by=None, token_count__gt=0) & ~Q(status=Status.FAILED)
    rows = _between(chat_id, owner_id, after_seq, before_seq).values("chat_id")
    tokens = Sum(Least("token_count", max_tokens) + MESSAGE_OVERHEAD, filter=spoken)
    totals = rows.annotate(turns=Count("pk", filter=turn), tokens=Coalesce(tokens, 0))
    return totals.values_list("chat_id", "turns", "tokens")


def _newest(chat_id: UUID, owner_id: int, after_seq: int, before_seq: int, text_tokens: int) -> QuerySet[Message, Any]:
    newer = Window(Sum("token_count"), order_by=F("seq").desc()) - F("token_count")
    texts = [Case(When(newer__lte=text_tokens, then=F(name))) for name in ("content", "payload")]
    rows = _between(chat_id, owner_id, after_seq, before_seq).annotate(newer=newer)
    return rows.order_by("-seq").values_list(*COUNTS, *texts)[:MAX_ROWS]


_PENDING = Select(
    lambda chat, owner: Chat.objects.filter(pk=chat, owner_id=owner).values_list(
        "active_reply__user_message__seq", "open_seq"
    )
)
_WITH_TEXT = Select(lambda *span: _between(*span).order_by("seq").values_list(*StoredMessage._fields)[:PAGE])
_COUNTS_ALONE = Select(lambda *span: _between(*span).order_by("seq").values_list(*COUNTS)[:COUNTS_PAGE])
_NEWEST_COUNTS = Select(lambda *span: _between(*span).order_by("-seq").values_list(*COUNTS)[:MAX_ROWS])
_TOTALS = Select(_totals)
_NEWEST = Select(_newest)
