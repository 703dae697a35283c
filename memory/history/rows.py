"""Rows of `messages` → turns of one chat after a cursor, and the counters that tell of them.

Reads by (chat, seq) alone, in pages, and only as far as asked: a backlog of ten thousand turns is never in
memory whole, nor read while a transaction waits (`Tally`). What is done with the turns is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, Sum

from chatmemory.text.tokens import MESSAGE_OVERHEAD
from conversations.models import SPOKEN, ActiveReply, Message
from memory.briefs import limits_beside_pins
from memory.history.turns import StoredMessage, Turn, to_turns
from memory.limits import MAX_TURNS, MemoryLimits
from memory.models import ConversationBrief
from memory.policies import get_policy, is_due, with_window
from memory.policies.protocol import Counts, State
from memory.policies.window import totals_of

PAGE = 64
"""Messages read at once where their texts are wanted."""
COUNTS_PAGE = 1000
"""Messages read at once where counts and lines will do."""

COUNTERS = ("unfolded_turns", "unfolded_tokens", "unfolded_line_tokens", "due")
"""The fields of a brief that `recount` and `set_counters` change."""

PIECE = 500
"""Turns of which a tally keeps one sum."""

_COUNTS = ("id", "seq", "role", "status", "superseded_by_id", "token_count", "line")


@dataclass(frozen=True, slots=True)
class Piece:
    """What finished turns that follow each other add up to: those with `after_seq` < seq <= `through_seq`."""

    after_seq: int
    through_seq: int
    sums: Counts


@dataclass(frozen=True, slots=True)
class Tally:
    """Turns of a chat, counted before the transaction that has to know: it reads what came since, and what has a hole.

    Good for as long as the brief has this `epoch`, because whatever changes a finished turn begins another.
    """

    epoch: int
    pieces: tuple[Piece, ...]


def pending_seq(chat_id: UUID) -> int | None:
    """Seq of the user message that is being answered now, or None. Its turn is not finished."""
    return ActiveReply.objects.filter(chat_id=chat_id).values_list("user_message__seq", flat=True).first()


def each_turn(chat_id: UUID, after_seq: int, before_seq: int | None, *, text: bool) -> Iterator[Turn]:
    """The turns with `after_seq` < seq < `before_seq`, oldest first, read page by page as they are wanted.

    Both ends are the ends of turns. Texts are loaded only with `text`.
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


def unfolded_turns(
    chat_id: UUID, after_seq: int, *, limit_tokens: int | None = None, before_seq: int | None = None
) -> list[Turn]:
    """The oldest turns after `after_seq`, with their texts, oldest first.

    With `limit_tokens` reading stops at the turn that passes it (which is still in the list). `before_seq` is
    the first message of a turn that is not wanted any more, such as one that is still being answered.
    """
    turns: list[Turn] = []
    left = limit_tokens
    for turn in each_turn(chat_id, after_seq, before_seq, text=True):
        turns.append(turn)
        if left is not None:
            left -= turn.tokens
            if left < 0:
                break
    return turns


def newest_turns(
    chat_id: UUID,
    after_seq: int,
    *,
    limit: int = MAX_TURNS,
    before_seq: int | None = None,
    text: bool = False,
) -> list[Turn]:
    """The newest turns after `after_seq`, oldest first, with at most `limit` that have any text.

    Texts are loaded only with `text`; lines and counts always are.
    """
    rows: list[StoredMessage] = []
    page = 2 * limit + 1
    before = before_seq
    while True:
        found = _page(chat_id, after_seq, before, text=text, newest=True, size=page)
        rows = found[::-1] + rows
        whole = to_turns(rows) if len(found) < page else to_turns(rows)[1:]
        if len(found) < page or sum(turn.tokens > 0 for turn in whole) >= limit:
            return _newest(whole, limit)
        before = rows[0].seq


def tally(chat_id: UUID, after_seq: int, *, besides: int = 0) -> Tally | None:
    """Count the finished turns after `after_seq`, but for the one with message `besides`. None: there is no brief."""
    epoch = ConversationBrief.objects.filter(pk=chat_id).values_list("epoch", flat=True).first()
    if epoch is None:
        return None
    pieces: list[Piece] = []
    turns: list[Turn] = []
    for turn in each_turn(chat_id, after_seq, pending_seq(chat_id), text=False):
        is_left_out = turn.from_seq <= besides <= turn.through_seq
        if turns and (is_left_out or len(turns) == PIECE):
            pieces.append(_piece(turns))
            turns = []
        if not is_left_out:
            turns.append(turn)
    return Tally(epoch, (*pieces, _piece(turns)) if turns else tuple(pieces))


def recount(brief: ConversationBrief, beforehand: Tally | None = None) -> None:
    """Set the unfolded counters and `due` of `brief` exactly, from the tables.

    The caller holds its row and saves `COUNTERS`. Reads the counts and the line of every unfolded message that is not
    in `beforehand`, which must be of the epoch that the caller found.
    """
    set_totals(brief, _totals(brief, beforehand.pieces if beforehand else ()))


def set_totals(brief: ConversationBrief, totals: Counts) -> None:
    """Write the sums over all unfolded turns into `brief`, and decide `due` by them and their window. Saves nothing."""
    policy, limits = get_policy(brief.policy), limits_beside_pins(brief)
    newest = newest_turns(
        brief.chat_id,
        brief.folded_through_seq,
        limit=policy.window_reach(limits),
        before_seq=pending_seq(brief.chat_id),
    )
    set_counters(brief, with_window(totals, policy, stored_state(brief), newest, limits), limits)


def said_tokens(brief: ConversationBrief) -> int | None:
    """Tokens of all finished turns of the chat as they were said; None where nobody has counted the folded ones."""
    if not brief.folded_through_seq:
        return brief.unfolded_tokens
    return None if brief.folded_tokens is None else brief.folded_tokens + brief.unfolded_tokens


def count_folded_tokens(brief: ConversationBrief) -> int:
    """Tokens of the turns that `brief` has folded, where nobody kept count. Reads the chat once."""
    spoken = Message.objects.filter(
        chat_id=brief.chat_id,
        seq__lte=brief.folded_through_seq,
        superseded_by=None,
        token_count__gt=0,
        status__in=SPOKEN,
    )
    found = spoken.aggregate(tokens=Sum("token_count"), messages=Count("pk"))
    return (found["tokens"] or 0) + MESSAGE_OVERHEAD * int(found["messages"])


def set_counters(brief: ConversationBrief, counts: Counts, limits: MemoryLimits) -> None:
    """Write `counts` into `brief` and decide `due` by them. Saves nothing."""
    brief.unfolded_turns = counts.turns
    brief.unfolded_tokens = counts.tokens
    brief.unfolded_line_tokens = counts.line_tokens
    brief.due = is_due(get_policy(brief.policy), stored_state(brief), counts, limits)


def stored_state(brief: ConversationBrief) -> State:
    """What the brief's policy remembers."""
    return State.from_json(brief.global_summary, brief.state)


def _totals(brief: ConversationBrief, pieces: Iterable[Piece]) -> Counts:
    """The sums over all unfolded turns: of `pieces` as far as they still fit, the rest read."""
    pending, at = pending_seq(brief.chat_id), brief.folded_through_seq
    sums: list[Counts] = []
    for piece in pieces:
        is_pending = pending is not None and pending <= piece.through_seq
        if piece.after_seq < at or is_pending:
            continue
        if piece.after_seq > at:
            sums.append(totals_of(each_turn(brief.chat_id, at, piece.after_seq + 1, text=False)))
        sums.append(piece.sums)
        at = piece.through_seq
    sums.append(totals_of(each_turn(brief.chat_id, at, pending, text=False)))
    return Counts(
        turns=sum(one.turns for one in sums),
        tokens=sum(one.tokens for one in sums),
        line_tokens=sum(one.line_tokens for one in sums),
        window_turns=0,
        window_tokens=0,
    )


def _piece(turns: Sequence[Turn]) -> Piece:
    return Piece(turns[0].from_seq - 1, turns[-1].through_seq, totals_of(turns))


def _newest(turns: Sequence[Turn], limit: int) -> list[Turn]:
    """The end of `turns` that holds `limit` turns with text, or all of it."""
    with_text = 0
    for index in range(len(turns) - 1, -1, -1):
        with_text += turns[index].tokens > 0
        if with_text == limit:
            return list(turns[index:])
    return list(turns)


def _page(
    chat_id: UUID, after_seq: int, before_seq: int | None, *, text: bool, newest: bool, size: int
) -> list[StoredMessage]:
    """One page of messages with `after_seq` < seq < `before_seq`, in the order read."""
    rows = Message.objects.filter(chat_id=chat_id, seq__gt=after_seq)
    if before_seq is not None:
        rows = rows.filter(seq__lt=before_seq)
    ordered = rows.order_by("-seq" if newest else "seq")
    fields = (*_COUNTS, "content") if text else _COUNTS
    return [_stored(row) for row in ordered.values_list(*fields)[:size]]


def _stored(row: tuple[Any, ...]) -> StoredMessage:
    message_id, seq, role, status, superseded_by, token_count, line, *content = row
    return StoredMessage(
        id=message_id,
        seq=seq,
        role=role,
        status=status,
        superseded=superseded_by is not None,
        token_count=token_count,
        content=content[0] if content else "",
        line=line,
    )
