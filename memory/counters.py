"""The counters of a brief: the number and cost of finished turns that are not folded, and whether they are due."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Sum

from chatmemory.text.tokens import MESSAGE_OVERHEAD
from conversations.models import TEXT_STATUSES, Message
from memory.briefs import limits_less_pins, limits_of, stored_state
from memory.history.rows import each_turn, newest_turns, pending_seq
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.models import ConversationBrief
from memory.pause import counts_at_pause
from memory.policies import POLICIES, get_policy, is_due, with_window
from memory.policies.protocol import Counts, FoldProgress
from memory.policies.window import totals_of

COUNTERS = ("unfolded_turns", "unfolded_tokens", "unfolded_line_tokens", "due")
"""The fields of a brief that `recount` and `set_counters` change."""

PIECE = 500
"""The number of turns in one piece of a tally."""


@dataclass(frozen=True, slots=True)
class TallyPiece:
    """The sums over consecutive finished turns: those with `after_seq` < seq <= `through_seq`."""

    after_seq: int
    through_seq: int
    sums: Counts


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of a chat's turns, made before a transaction that needs them.

    The transaction then reads only the turns added since, and pieces that have a hole. Valid as long as the brief has
    this `epoch`, because any change of a finished turn raises it.
    """

    epoch: int
    pieces: tuple[TallyPiece, ...]


def tally(chat_id: UUID, after_seq: int, *, besides: int = 0) -> Tally | None:
    """Count the finished turns after `after_seq`, except the one with message `besides`. None if there is no brief."""
    epoch = ConversationBrief.objects.filter(pk=chat_id).values_list("epoch", flat=True).first()
    if epoch is None:
        return None
    pieces: list[TallyPiece] = []
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

    The caller must have locked its row, and saves `COUNTERS`. Reads the counts and the line of every unfolded message
    that is not in `beforehand`, which must be of the epoch that the caller found.
    """
    set_totals(brief, _totals(brief, beforehand.pieces if beforehand else ()))


def set_totals(brief: ConversationBrief, totals: Counts) -> None:
    """Write the sums over all unfolded turns into `brief` and decide `due` from them. Saves nothing."""
    policy, limits = get_policy(brief.policy), limits_less_pins(brief)
    newest = newest_turns(
        brief.chat_id,
        brief.folded_through_seq,
        limit=policy.window_reach(limits),
        before_seq=pending_seq(brief.chat_id),
    )
    set_counters(brief, with_window(totals, policy, stored_state(brief), newest, limits), limits)


def decide_due(brief: ConversationBrief) -> None:
    """Decide `due` again, from the current counters. Saves nothing."""
    set_totals(brief, unfolded(brief))


def said_tokens(brief: ConversationBrief | None) -> int | None:
    """Tokens of all finished turns of the chat, before folding; None if the folded ones were never counted."""
    if brief is None:
        return 0
    if not brief.folded_through_seq:
        return brief.unfolded_tokens
    return None if brief.folded_tokens is None else brief.folded_tokens + brief.unfolded_tokens


def count_folded_tokens(brief: ConversationBrief) -> int:
    """Tokens of the turns that `brief` has folded, if they were not counted while folding. Reads the chat once."""
    spoken = Message.objects.filter(
        chat_id=brief.chat_id,
        seq__lte=brief.folded_through_seq,
        superseded_by=None,
        token_count__gt=0,
        status__in=TEXT_STATUSES,
    )
    found = spoken.aggregate(tokens=Sum("token_count"), messages=Count("pk"))
    return (found["tokens"] or 0) + MESSAGE_OVERHEAD * int(found["messages"])


def set_counters(brief: ConversationBrief, counts: Counts, limits: MemoryLimits) -> None:
    """Write `counts` into `brief` and decide `due` from them. Saves nothing."""
    brief.unfolded_turns = counts.turns
    brief.unfolded_tokens = counts.tokens
    brief.unfolded_line_tokens = counts.line_tokens
    brief.due = is_due(get_policy(brief.policy), stored_state(brief), counts, limits, counts_at_pause(brief))


def _totals(brief: ConversationBrief, pieces: Iterable[TallyPiece]) -> Counts:
    """The sums over all unfolded turns: from `pieces` as far as they still apply, the rest read from the tables."""
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


def _piece(turns: Sequence[Turn]) -> TallyPiece:
    return TallyPiece(turns[0].from_seq - 1, turns[-1].through_seq, totals_of(turns))


def fold_progress(brief: ConversationBrief) -> FoldProgress | None:
    """How far the chat is from its next fold. None if no number triggers one, or while updates are paused."""
    if brief.paused_at or brief.policy not in POLICIES or not (limits := limits_of(brief)).enabled:
        return None
    return get_policy(brief.policy).measure(stored_state(brief), unfolded(brief), limits)


def unfolded(brief: ConversationBrief) -> Counts:
    """The stored counts of unfolded turns. The window's part is not stored: `with_window` adds it."""
    return Counts(
        brief.unfolded_turns,
        brief.unfolded_tokens,
        brief.unfolded_line_tokens,
        window_turns=0,
        window_tokens=0,
    )
