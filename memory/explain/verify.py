"""Whether a reply's prompt was rebuilt byte for byte, and if not, why, in a sentence that anyone understands.

Only the hash decides. The sources of the prompt are examined only to say what changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q

from conversations.models import ActiveReply, Message, Status
from memory.context.plan import RENDERER, Plan, Snapshot
from memory.context.prompt import Context
from memory.models import Pin, SummaryRevision

DELETED = "A message that was in it has been deleted."
EDITED = "A message that was in it has been edited."
SUMMARY = "A message covered by its summary has been edited or deleted."
RENDERED = "It was sent by an earlier version of chatmemory, which built prompts differently."
PINNED = "A pin that was in it has been removed or changed."
OTHER = "Something it was built from has changed."


def why_not_exact(reply: Message | ActiveReply, context: Context, sent: Snapshot) -> str | None:
    """Why `context`, rebuilt for `reply`, differs from what was sent; None if it is the same byte for byte."""
    if context.prompt_hash == sent.prompt_hash:
        return None
    found = [*_changed(reply, sent.plan), *_forgotten(reply, sent.revision), *_unpinned(reply, sent.plan)]
    if not found and context.plan.renderer != RENDERER:
        found.append(RENDERED)
    return " ".join(found) or OTHER


def _changed(reply: Message | ActiveReply, plan: Plan) -> list[str]:
    """Changes of messages that the prompt showed."""
    spans = list(_spans(plan))
    question = reply.user_message_id if isinstance(reply, ActiveReply) else reply.reply_to_id
    shown = Q(pk=question) | (Q(pk=plan.outline_of) if plan.outline_of else Q())
    if spans:
        shown |= Q(seq__range=(min(low for low, _ in spans), max(high for _, high in spans)))
    rows = Message.objects.filter(shown, edited_at__isnull=False, chat_id=reply.chat_id)
    statuses = {
        status
        for message_id, seq, status in rows.values_list("pk", "seq", "status")
        if message_id == question
        or str(message_id) == plan.outline_of
        or any(low <= seq <= high for low, high in spans)
    }
    is_edited = bool(statuses - {Status.DELETED})
    return [DELETED] * (Status.DELETED in statuses) + [EDITED] * is_edited


def _unpinned(reply: Message | ActiveReply, plan: Plan) -> list[str]:
    """Changes of pins: one that is gone, or whose message was edited."""
    ids = {pin.id for pin in plan.pins}
    if not ids:
        return []
    rows = Pin.objects.filter(chat_id=reply.chat_id, pk__in=ids, message__edited_at__isnull=True)
    return [PINNED] if rows.count() < len(ids) else []


def _spans(plan: Plan) -> Iterable[tuple[int, int]]:
    """Yield the ranges of the messages that a prompt shows, in whole or in part."""
    yield from ((line.from_seq, line.through_seq) for line in plan.lines)
    yield from ((shown.from_seq, shown.through_seq) for shown in plan.verbatim)
    yield from ((quote.seq, quote.seq) for quotes in plan.recalled for quote in quotes)
    yield from ((seq, seq) for seq in plan.open_turn)


def _forgotten(reply: Message | ActiveReply, version: int) -> list[str]:
    """The change of the summary that was in use, if it was emptied since."""
    if not version:
        return []
    stands = SummaryRevision.objects.filter(chat_id=reply.chat_id, version=version, forgotten_at=None)
    return [] if stands.exists() else [SUMMARY]
