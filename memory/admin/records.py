"""What the model was sent for a reply: the prompt rebuilt from its record, in its sections, and proven by its hash."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from conversations.admin_content import OfChatAdmin, Page
from conversations.admin_html import link
from conversations.models import Chat, Message
from memory import services
from memory.exactness import OTHER, why_not_exact
from memory.models import ContextRecord, SummaryRevision
from memory.rendering import Section

_LONG = (
    "content",
    "line",
    "outline",
    "metadata",
    "error",
    "chat__instructions",
    "chat__metadata",
    "chat__options",
)


@dataclass(frozen=True, slots=True)
class ShownSection:
    """A section with its text, where it could be rebuilt, and its messages by seq."""

    kind: str
    tokens: int
    clipped: bool
    text: str
    messages: list[SafeString]


@admin.register(ContextRecord)
class RecordAdmin(OfChatAdmin):
    list_display = (
        *("short", "in_chat", "owner", "seq", "policy", "revision", "tokens", "budget"),
        *("unrepresented", "clipped", "dropped", "card", "created"),
    )
    list_defer = ("plan", "sections", *(f"reply__{name}" for name in _LONG))
    chat_path = "reply__chat"
    chat_ordering = ("-reply__seq",)
    content_columns = ()
    change_form_template = "admin/memory/contextrecord/change_form.html"

    def chat_of(self, row: ContextRecord) -> Chat:
        return row.reply.chat

    @admin.display(description="message")
    def seq(self, record: ContextRecord) -> int:
        return record.reply.seq

    @admin.display(description="created")
    def created(self, record: ContextRecord) -> Any:
        return record.reply.created_at

    def get_queryset(self, request: HttpRequest) -> QuerySet[ContextRecord]:
        return super().get_queryset(request).select_related("reply__chat__owner")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return []  # the page is a template of its own

    def page(self, row: ContextRecord, name: str) -> Page:
        sections, why = rebuilt(row)
        facts = _facts(row)
        context = {
            "title": f"What the model was sent for message {row.reply.seq}",
            "subtitle": None,
            "record": row,
            "sections": [replace(section, text="") for section in sections],
            "why": why,
            "facts": facts,
            "plan": json.dumps(row.plan, indent=2, sort_keys=True),
        }
        texts = {section.kind: section.text for section in sections}
        return Page(texts, context, {"sections": sections, "facts": [*facts, _hashes(row)]})


def rebuilt(record: ContextRecord) -> tuple[list[ShownSection], str | None]:
    """The sections with their texts, and None if that is what was sent, to the letter, else why not.

    Where it is not (a message was edited or forgotten since), the sections are shown as recorded, without text.
    """
    past = services.past_context(record.reply)
    why = OTHER if past is None else why_not_exact(record.reply, *past)
    if past is not None and why is None:
        return _with_links(past[0].sections), None
    recorded = [
        Section(
            kind=section["kind"],
            tokens=section["tokens"],
            text="",
            message_ids=tuple(UUID(message_id) for message_id in section["message_ids"]),
            clipped=section["clipped"],
        )
        for section in record.sections
    ]
    return _with_links(recorded), why


def _with_links(sections: Iterable[Section]) -> list[ShownSection]:
    sections = list(sections)
    wanted = {message_id for section in sections for message_id in section.message_ids}
    seqs = dict(Message.objects.filter(pk__in=wanted).values_list("pk", "seq"))
    return [
        ShownSection(
            section.kind,
            section.tokens,
            section.clipped,
            section.text,
            [
                link(seqs.get(message_id, "gone"), "conversations_message", "change", message_id)
                for message_id in section.message_ids
            ],
        )
        for section in sections
    ]


def _facts(record: ContextRecord) -> list[tuple[str, list[tuple[str, Any]]]]:
    reply = record.reply
    return [
        (
            "For",
            [
                ("Chat", link(reply.chat_id, "conversations_chat", "change", reply.chat_id)),
                ("Reply", link(f"message {reply.seq}", "conversations_message", "change", reply.pk)),
                ("Revision", _revision(record)),
                ("Policy", record.policy),
            ],
        ),
        (
            "Budget",
            [
                ("Memory", f"{record.tokens:,} of {record.budget:,} tokens"),
                ("Turns without text or line", record.unrepresented),
                ("Turns of the window not verbatim", record.dropped),
                ("Things clipped", record.clipped),
                ("Memory card of the reply", record.get_card_display() if record.card else "not asked for"),
            ],
        ),
    ]


def _hashes(record: ContextRecord) -> tuple[str, list[tuple[str, Any]]]:
    """Content, too: of a short text, a plain hash can be guessed."""
    return (
        "Hashes",
        [
            ("Prompt", record.prompt_hash),
            ("Instructions", record.instructions_hash or "none"),
            ("Sources", record.sources_hash or "none"),
        ],
    )


def _revision(record: ContextRecord) -> SafeString | str:
    if not record.revision:
        return "none yet"
    found = (
        SummaryRevision.objects.filter(chat_id=record.reply.chat_id, version=record.revision)
        .only("pk")
        .first()
    )
    if found is None:
        return f"revision {record.revision}, gone"
    return link(f"revision {record.revision}", "memory_summaryrevision", "change", found.pk)
