"""Giving a branch, a chat that begins like another one, the memory of the messages that they share."""

from __future__ import annotations

from uuid import UUID

from conversations.models import Chat
from memory.briefs import decide_due
from memory.folding import dispatch
from memory.models import ConversationBrief, RevisionKind, SummaryRevision, new_brief
from memory.recall import embeddings
from memory.revisions import step_back


def chat_branched(branch: Chat, origin: UUID) -> None:
    """Give a chat that begins like `origin` the memory of the messages that they share.

    Its first revision is a copy of the newest one of `origin` that has seen no other message, if that has the same
    policy; otherwise it has none. The remaining turns are folded when due. Call it in the transaction
    that stores the branch.
    """
    brief = ConversationBrief(chat=branch, **new_brief(branch))
    older = step_back.newest_before(origin, branch.last_seq + 1)
    if older is not None and older.policy == branch.policy:
        step_back.apply_revision(brief, older)
        brief.version = brief.head = 1
        brief.degraded = older.degraded
    decide_due(brief)
    brief.save(force_insert=True)
    if brief.head:
        assert older is not None
        SummaryRevision.of(
            brief,
            kind=RevisionKind.BRANCH,
            parent=None,
            tokens_before=0,
            degraded=older.degraded,
            model=older.model,
            prompt_hash=older.prompt_hash,
            focus=older.focus,
            custom_instructions=older.custom_instructions,
            retained=older.retained,
            soft_faults=older.soft_faults,
            is_wanting=older.is_wanting,
        ).save(force_insert=True)
    dispatch.enqueue_if_ready(brief)
    embeddings.enqueue_chat(branch.pk)
