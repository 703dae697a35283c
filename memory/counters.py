"""The unfolded turns of a chat, counted from their rows: what they cost, and whether the chat is due because of them.

Only `due` is stored, because workers search for it. Deciding it reads the newest turns and no others: `MAX_TURNS` of
them are always due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Sum

from chatmemory.text.tokens import MESSAGE_OVERHEAD
from conversations.models import TEXT_STATUSES, Message
from memory.briefs import limits_less_pins, limits_of, stored_state
from memory.history.rows import each_turn, newest_turns, pending_seq
from memory.history.turns import StoredMessage, Turn, to_turns
from memory.models import ConversationBrief
from memory.policies import POLICIES, counts_of, get_policy, is_due
from memory.policies.protocol import Counts, FoldProgress
from memory.policies.window import totals_of


@dataclass(frozen=True, slots=True)
class Standing:
    """A brief and all its unfolded turns, as they were when a turn began."""

    brief: ConversationBrief
    turns: tuple[Turn, ...]

    def is_due_after(self, question: Message, reply: Message) -> bool:
        """Whether there is work once the turn of these two messages is finished."""
        if self.brief.due or self.brief.requested:
            return True
        (turn,) = to_turns([_stored(question), _stored(reply)])
        return is_due_by(self.brief, [*self.turns, turn])


def _stored(message: Message) -> StoredMessage:
    return StoredMessage(
        id=message.pk,
        seq=message.seq,
        role=message.role,
        status=message.status,
        superseded=message.superseded_by_id is not None,
        token_count=message.token_count,
        line=message.line,
    )


def is_due_by(brief: ConversationBrief, newest: Sequence[Turn]) -> bool:
    """Whether the chat is due by `newest`, its newest finished turns that are not folded, oldest first."""
    limits = limits_less_pins(brief)
    if not limits.enabled:
        return False
    policy, state = get_policy(brief.policy), stored_state(brief)
    waited = None
    if brief.paused_at is not None:
        waited = totals_of(turn for turn in newest if turn.through_seq <= (brief.paused_seq or 0))
    return is_due(policy, state, counts_of(policy, state, newest, limits), limits, waited)


def decide_due(brief: ConversationBrief) -> list[Turn]:
    """Set `due` of a locked brief. Saves nothing. Returns the turns by which it was decided."""
    newest = unfolded_turns(brief)
    brief.due = is_due_by(brief, newest)
    return newest


def unfolded_turns(brief: ConversationBrief) -> list[Turn]:
    """The newest finished turns that are not folded, oldest first, without texts: `MAX_TURNS` at most."""
    pending = pending_seq(brief.chat_id)
    return newest_turns(brief.chat_id, brief.folded_through_seq, before_seq=pending)


def unfolded(brief: ConversationBrief) -> Counts:
    """Counts of all unfolded turns, without those of the window. For pages: reads a row for every message."""
    pending = pending_seq(brief.chat_id)
    return totals_of(each_turn(brief.chat_id, brief.folded_through_seq, pending, text=False))


def said_tokens(brief: ConversationBrief | None) -> int | None:
    """Tokens of all finished turns of the chat, before folding; None if the folded ones were never counted."""
    return 0 if brief is None else said_with(brief, unfolded(brief).tokens)


def said_with(brief: ConversationBrief, unfolded_tokens: int) -> int | None:
    """The same if the tokens of the unfolded turns are known."""
    if not brief.folded_through_seq:
        return unfolded_tokens
    return None if brief.folded_tokens is None else brief.folded_tokens + unfolded_tokens


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


def fold_progress(brief: ConversationBrief, counts: Counts) -> FoldProgress | None:
    """How far a chat with these unfolded turns is from its next fold. None if no number triggers one, or if paused."""
    if brief.paused_at or brief.policy not in POLICIES or not (limits := limits_of(brief)).enabled:
        return None
    return get_policy(brief.policy).measure(stored_state(brief), counts, limits)
