"""Stepping a brief back to what it was before messages that changed. What follows from that is the caller's."""

from __future__ import annotations

from django.db.models import QuerySet

from conversations.models import Message, Role, Status
from memory.models import ConversationBrief, Requested, SummaryRevision
from memory.policies import State, get_policy


def step_back(brief: ConversationBrief, from_seq: int) -> None:
    """Make the newest revision that had seen no message from `from_seq` on the one in use, or none. Saves nothing."""
    older = _before(brief, from_seq)
    state = State.from_json(older.global_summary, older.state) if older else State()
    brief.head = older.version if older else 0
    brief.policy = older.policy if older else brief.chat.policy
    if brief.policy != brief.chat.policy:
        brief.requested = Requested.REBUILD
    brief.degraded = older.degraded if older else False
    brief.global_summary, brief.state = state.summary, (older.state if older else {})
    brief.token_count = get_policy(brief.policy).size(state)
    brief.folded_through_seq = older.through_seq if older else 0
    brief.seen_seq = older.seen_seq if older else 0
    brief.rebuild = None
    brief.last_summarized_message = _replies(brief).filter(seq__lte=brief.folded_through_seq).first()


def _before(brief: ConversationBrief, from_seq: int) -> SummaryRevision | None:
    """The newest revision that had not seen `from_seq`; none that ends with the card of an answer since replaced."""
    replaced = Message.objects.filter(chat_id=brief.chat_id, superseded_by__isnull=False).values("seq")
    revisions = SummaryRevision.objects.filter(chat_id=brief.chat_id, seen_seq__lt=from_seq)
    return revisions.exclude(seen_seq__in=replaced).order_by("-version").first()


def _replies(brief: ConversationBrief) -> QuerySet[Message]:
    """The replies of the chat that stand, the newest first."""
    replies = Message.objects.filter(chat_id=brief.chat_id, role=Role.ASSISTANT, superseded_by=None)
    return replies.exclude(status__in=[Status.FAILED, Status.DELETED]).order_by("-seq")
