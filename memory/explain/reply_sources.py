"""The sources of a reply, from the record of its prompt and the rows that it names (`memory.explain.sources`)."""

from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.db.models import Case, Q, TextField, Value, When

from chatmemory.database.owned import ChatKey
from chatmemory.text.thoughts import said
from conversations.models import ActiveReply, Message
from memory.context.build import past_context
from memory.context.plan import Plan
from memory.explain.sources import Place, PromptSource, sources_of
from memory.models import Pin


def sources_of_reply(reply: Message | ActiveReply) -> list[PromptSource] | None:
    """Return what of memory stood in the prompt of `reply`, in its order; None if no prompt is stored.

    Rows of other chats, which the plan names, are those of the same owner.
    """
    past = past_context(reply)
    if past is None:
        return None
    context, sent = past
    chat, plan = reply.chat_key, sent.plan
    rows = Pin.objects.filter(owner_id=chat.owner_id, pk__in=[pin.id for pin in plan.pins])
    pins = {
        str(pin.pk): _source(chat, pin, pin.message, kind="pin", text=pin.text, pin_id=pin.pk)
        for pin in rows.select_related("chat", "message")
    }
    summary = PromptSource(kind="summary", chat_id=chat.id, version=sent.revision or None)
    return list(sources_of(context.sections, plan, summary, pins, _messages(chat, plan)))


def _messages(chat: ChatKey, plan: Plan) -> dict[Place, PromptSource]:
    """Return the messages that a plan names as they are now; without their texts where it shows only lines."""
    shown = {quote.seq for quotes in plan.recalled for quote in quotes} | plan.verbatim_seqs
    in_lines = {seq for span in plan.lines for seq in range(span.from_seq, span.through_seq + 1)} - shown
    elsewhere = [Q(chat=UUID(other), seq__in=[quote.seq for quote in quotes]) for other, quotes in plan.elsewhere]
    named = reduce(or_, elsewhere, Q(chat=chat.id, seq__in=[*shown, *in_lines]))
    without = When(chat=chat.id, seq__in=list(in_lines), then=Value(""))
    rows = Message.objects.filter(named, owner_id=chat.owner_id).select_related("chat").defer("content")
    rows = rows.annotate(read=Case(without, default="content", output_field=TextField()))
    return {
        (row.chat_id, row.seq): _source(chat, row, row, kind="message", text=said(row.read, row.role)) for row in rows
    }


def _source(here: ChatKey, row: Pin | Message, by: Message | None, **fields: Any) -> PromptSource:
    return PromptSource(
        chat_id=row.chat_id,
        chat_title=None if row.chat_id == here.id else row.chat.title,
        message_id=by.pk if by else None,
        role=by.role if by else None,
        said_at=(by or row).created_at,
        muted=row.muted_at is not None,
        **fields,
    )
