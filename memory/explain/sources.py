"""The sources of a reply: what of memory stood in its prompt, item by item, in the order of the prompt.

They come from the record of the prompt and the rows that it names.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import Case, TextField, Value, When

from chatmemory.database.owned import ChatKey
from chatmemory.text import markers
from chatmemory.text.thoughts import visible_text
from chatmemory.text.tokens import clipped
from conversations.models import ActiveReply, Message, messages_at
from memory.context.build import past_context
from memory.context.plan import Plan, Section
from memory.explain.reasons import OUTSIDE_MEMORY
from memory.models import Pin
from memory.policies import progressive

MAX_SHOWN_CHARS = 200
"""The most characters of a message that was sent in full: it can be read in its chat."""
_HEADINGS = (markers.SUMMARY_HEADING, markers.FACTS_HEADING, progressive.SUMMARY_HEADING, progressive.DATA_HEADING)

SourceKind = Literal["pin", "summary", "line", "message", "excerpt", "elsewhere"]
Place = tuple[UUID, int]
"""A message, by its chat and seq."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSource:
    """A pin, a line of the summary, the line of a turn, or what was shown of a message."""

    kind: SourceKind
    chat_id: UUID
    chat_title: str | None = None
    """Only of another chat."""
    message_id: UUID | None = None
    role: str | None = None
    said_at: datetime | None = None
    text: str = ""
    version: int | None = None
    pin_id: UUID | None = None
    muted: bool = False


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
    return list(_sources_of(context.sections, plan, summary, pins, _messages(chat, plan)))


def _sources_of(
    sections: Iterable[Section],
    plan: Plan,
    summary: PromptSource,
    pins: Mapping[str, PromptSource],
    messages: Mapping[Place, PromptSource],
) -> Iterator[PromptSource]:
    """Yield the sources of the prompt of `sections`. Those whose text is gone are left out, as in the rebuilt prompt.

    `summary` is one without text. `pins` are those of the plan by id, `messages` those that it names, with whole text.
    """
    here, by_id = summary.chat_id, {one.message_id: one for one in messages.values()}
    quotes = {
        "recall": [(here, quote) for quotes in plan.recalled for quote in quotes],
        "elsewhere": [(UUID(chat), quote) for chat, quotes in plan.elsewhere for quote in quotes],
    }
    for section in sections:
        shown = {one: by_id[one] for one in section.message_ids if one in by_id}
        if section.kind == "pins":
            yield from (pins[pin.id] for pin in plan.pins if pin.id in pins)
        elif section.kind == "outline":
            yield replace(summary, kind="line", message_id=UUID(plan.outline_of), role="assistant", text=section.text)
        elif section.kind == "lines":
            texts = section.text.splitlines()[2 if plan.merged else 1 :]  # after the heading, and the merged line
            turns = [[messages.get((here, seq)) for seq in range(one, last + 1)] for one, last in plan.lines]
            firsts = [next((one for one in turn if one and one.message_id in shown), None) for turn in turns]
            said = ((one, text) for one, text in zip(firsts, texts, strict=False) if one)
            yield from (replace(one, kind="line", text=text.removeprefix("- ")) for one, text in said)
        elif section.kind == "window":
            yield from (replace(one, text=clipped(one.text, MAX_SHOWN_CHARS)) for one in shown.values())
        elif section.kind in quotes:
            found = [(messages.get((chat, quote.seq)), quote) for chat, quote in quotes[section.kind]]
            kind: SourceKind = "excerpt" if section.kind == "recall" else "elsewhere"
            cut = (replace(one, kind=kind, text=one.text[start:end].strip()) for one, (_, start, end) in found if one)
            yield from (one for one in cut if one.text)
        elif section.kind not in OUTSIDE_MEMORY:
            lines = (line.strip() for line in section.text.splitlines() if line not in _HEADINGS)
            yield from (replace(summary, text=line.removeprefix("- ")) for line in lines if line)


def _messages(chat: ChatKey, plan: Plan) -> dict[Place, PromptSource]:
    """Return the messages that a plan names as they are now; without their texts where it shows only lines."""
    shown = {quote.seq for quotes in plan.recalled for quote in quotes} | plan.verbatim_seqs
    in_lines = {seq for span in plan.lines for seq in range(span.from_seq, span.through_seq + 1)} - shown
    places = [(UUID(other), quote.seq) for other, quotes in plan.elsewhere for quote in quotes]
    places += [(chat.id, seq) for seq in shown | in_lines]
    without = When(chat=chat.id, seq__in=list(in_lines), then=Value(""))
    rows = messages_at(chat.owner_id, places).select_related("chat").defer("content")
    rows = rows.annotate(read=Case(without, default="content", output_field=TextField()))
    return {
        (row.chat_id, row.seq): _source(chat, row, row, kind="message", text=visible_text(row.read, row.role))
        for row in rows
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
