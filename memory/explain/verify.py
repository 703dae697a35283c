"""Whether a reply's prompt was rebuilt byte for byte, and if not, why, in a sentence that anyone understands.

Only the hash decides. The sources of the prompt are examined only to say what changed.
"""

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
    found = _changed_messages(reply, sent.plan)
    revision = SummaryRevision.objects.filter(chat_id=reply.chat_id, version=sent.revision, forgotten_at=None)
    if sent.revision and not revision.exists():
        found.append(SUMMARY)
    pins = {pin.id for pin in sent.plan.pins}
    unchanged = Pin.objects.filter(chat_id=reply.chat_id, pk__in=pins, message__edited_at__isnull=True)
    if pins and unchanged.count() < len(pins):
        found.append(PINNED)
    if not found and context.plan.renderer != RENDERER:
        found.append(RENDERED)
    return " ".join(found) or OTHER


def _changed_messages(reply: Message | ActiveReply, plan: Plan) -> list[str]:
    """What happened to the messages that the prompt showed, in whole or in part."""
    spans = [(line.from_seq, line.through_seq) for line in plan.lines]
    spans += [(shown.from_seq, shown.through_seq) for shown in plan.verbatim]
    spans += [(quote.seq, quote.seq) for quotes in plan.recalled for quote in quotes]
    spans += [(seq, seq) for seq in plan.open_turn]
    question = reply.user_message_id if isinstance(reply, ActiveReply) else reply.reply_to_id
    ids = set(filter(None, (str(question or ""), plan.outline_of)))
    shown = Q(pk__in=ids)
    if spans:  # a range that an index finds, whatever the chat's length
        shown |= Q(seq__range=(min(low for low, _ in spans), max(high for _, high in spans)))
    rows = Message.objects.filter(shown, edited_at__isnull=False, chat_id=reply.chat_id)
    statuses = {
        status
        for message_id, seq, status in rows.values_list("pk", "seq", "status")
        if str(message_id) in ids or any(low <= seq <= high for low, high in spans)
    }
    is_edited = bool(statuses - {Status.DELETED})
    return [DELETED] * (Status.DELETED in statuses) + [EDITED] * is_edited
