"""The prompt that was sent for a reply: rebuilt from its record, shown by section, and verified by its hash."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import relative_time
from conversations.admin.access import OfChatAdmin, Page, sees_cost
from conversations.admin.html import Step, admin_url, link, usd_of
from conversations.admin.messages import LONG_COLUMNS
from conversations.models import Chat, ChatCompletion, Message
from memory import services
from memory.admin.chat.prompts import ShownSection, sentences, shown_sections, timeline_link
from memory.context.assemble import prompt_messages
from memory.context.plan.plan import Plan
from memory.context.render import Section
from memory.explain.coverage import budget_of
from memory.explain.reasons import explain
from memory.explain.verify import OTHER, why_not_exact
from memory.models import ContextRecord, ConversationBrief, SummaryRevision
from memory.policies import policy_name

NEAR = 200
"""How many messages before and after a reply are searched for the adjacent replies."""


@admin.register(ContextRecord)
class RecordAdmin(OfChatAdmin):
    list_display = (*("called", "seq", "policy", "version", "memory_tokens", "left_out", "created"),)
    list_defer = ("plan", "sections", *(f"reply__{name}" for name in LONG_COLUMNS))
    list_display_links = ("seq",)
    chat_path = "reply__chat"
    chat_ordering = ("-reply__seq",)
    content_columns = ()
    change_form_template = "admin/memory/contextrecord/change_form.html"

    def chat_of(self, row: ContextRecord) -> Chat:
        return row.reply.chat

    def steps(self, row: ContextRecord) -> list[Step]:
        url = admin_url("memory_contextrecord", "change", row.pk)
        return [(f"Prompt sent for message {row.reply.seq}", url)]

    @admin.display(description="sent for")
    def seq(self, record: ContextRecord) -> str:
        return f"message {record.reply.seq}"

    @admin.display(description="summary")
    def version(self, record: ContextRecord) -> str:
        return f"version {record.revision}" if record.revision else "none yet"

    @admin.display(description="tokens of memory")
    def memory_tokens(self, record: ContextRecord) -> str:
        return f"{record.tokens:,} of {record.budget:,}"

    @admin.display(description="turns left out")
    def left_out(self, record: ContextRecord) -> int:
        return record.unrepresented

    @admin.display(description="created")
    def created(self, record: ContextRecord) -> Any:
        return relative_time(record.reply.created_at)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ContextRecord]:
        return super().get_queryset(request).select_related("reply__chat__owner")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return []  # the page is a template of its own

    def page_for(self, request: HttpRequest, row: ContextRecord, name: str) -> Page:
        sections, prompt, why = rebuilt(row)
        revision, reply = _revision_of(row), row.reply
        facts = _facts(row, revision, with_cost=sees_cost(request))
        told = explain(
            Plan.from_json(row.plan),
            head=row.revision,
            folded_through=revision.through_seq if revision else 0,
        )
        context = {
            "title": f"Prompt sent for message {reply.seq}",
            "subtitle": None,
            "record": row,
            "sections": [replace(section, text="", pieces=()) for section in sections],
            "budget": budget_of([(section.kind, section.tokens) for section in sections], row.budget),
            "told": sentences(reply.chat_id, told),
            "why": why,
            "facts": facts,
            "plan": json.dumps(row.plan, indent=2, sort_keys=True),
            **_beside(reply),
        }
        texts = {section.name: section.text for section in sections}
        content = {
            "sections": sections,
            "prompt": prompt,
            "hashes": _hashes(row),
        }
        return Page(texts, context, content)


def rebuilt(record: ContextRecord) -> tuple[list[ShownSection], list[dict[str, str]], str | None]:
    """The sections with their texts, the prompt by role, and None if that equals what was sent, else why it does not.

    If it does not (a message was edited or forgotten since), the sections are shown as recorded, without texts.
    """
    past = services.past_context(record.reply)
    why = OTHER if past is None else why_not_exact(record.reply, *past)
    chat_id = record.reply.chat_id
    if past is not None and why is None:
        return shown_sections(chat_id, past[0].sections), prompt_messages(past[0].prompt), None
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
    return shown_sections(chat_id, recorded), [], why


def _beside(reply: Message) -> dict[str, Any]:
    """The replies before and after this one that have a record, if they are near."""
    near = Message.objects.filter(chat_id=reply.chat_id, context_record__isnull=False).only("pk", "seq")
    before = near.filter(seq__lt=reply.seq, seq__gte=reply.seq - NEAR).order_by("-seq")
    after = near.filter(seq__gt=reply.seq, seq__lte=reply.seq + NEAR).order_by("seq")
    return {"previous": before.first(), "next": after.first()}


def _facts(
    record: ContextRecord, revision: SummaryRevision | None, *, with_cost: bool
) -> list[tuple[str, list[tuple[str, Any]]]]:
    return [
        ("Reply", _of_reply(record, revision)),
        ("Memory used", _of_memory(record)),
        ("Usage", _bill(record.reply, with_cost=with_cost)),
        *_of_request(record.reply),
    ]


def _of_request(reply: Message) -> list[tuple[str, list[tuple[str, Any]]]]:
    """The request of a client of OpenAI's API for the reply; nothing for other clients."""
    asked = ChatCompletion.objects.filter(pk=reply.pk).first()
    if asked is None:
        return []
    found = f"{asked.decision}, found by its {asked.found_by}" if asked.found_by else asked.decision
    rows = [
        ("Conversation", found),
        ("Model asked for", asked.model),
    ]
    return [("OpenAI client", rows)]


def _of_reply(record: ContextRecord, revision: SummaryRevision | None) -> list[tuple[str, Any]]:
    reply = record.reply
    return [
        ("In the chat", timeline_link(reply.chat_id, reply.seq, f"message {reply.seq}")),
        ("Full text", link("message page", "conversations_message", "change", reply.pk)),
        ("Status", reply.get_status_display()),
        ("Summary", _revision(record, revision)),
        ("Policy", policy_name(record.policy)),
    ]


def _of_memory(record: ContextRecord) -> list[tuple[str, Any]]:
    return [
        ("Memory", f"{record.tokens:,} of {record.budget:,} tokens"),
        ("Turns left out", record.unrepresented),
        ("Recent turns shortened", record.dropped),
        ("Truncated items", record.clipped),
        ("Reply notes", record.get_card_display() if record.card else "not requested"),
    ]


def _bill(reply: Message, *, with_cost: bool) -> list[tuple[str, Any]]:
    """Usage as the upstream reported it. Its tokens differ from ours: each model counts in its own way."""
    said = [("Model", f"{reply.model or '–'}, as {reply.model_variant or '–'}")]
    if reply.input_tokens is None:
        said.append(("Tokens", "not reported by the model"))
    else:
        said += [
            ("Input tokens", f"{reply.input_tokens:,}"),
            ("Cached tokens", _cached(reply.cached_tokens or 0, reply.input_tokens)),
            ("Output tokens", f"{reply.output_tokens or 0:,}"),
        ]
    if with_cost:
        said.append(("Cost", "not known" if reply.cost_usd is None else usd_of(reply.cost_usd)))
    return said


def _cached(cached: int, sent: int) -> str:
    return f"{cached:,} ({cached / sent:.0%})" if sent else "0"


def _hashes(record: ContextRecord) -> list[tuple[str, str]]:
    """The hashes; they count as content, since a short text can be guessed from a plain hash."""
    return [
        ("Prompt", record.prompt_hash),
        ("Instructions", record.instructions_hash or "none"),
        ("Sources", record.sources_hash or "none"),
    ]


def _revision_of(record: ContextRecord) -> SummaryRevision | None:
    """The revision that the prompt was made with, without its texts; None if there was none, or if it is gone."""
    rows = SummaryRevision.objects.filter(chat_id=record.reply.chat_id, version=record.revision)
    return rows.only("pk", "version", "through_seq", "forgotten_at").first() if record.revision else None


def _revision(record: ContextRecord, found: SummaryRevision | None) -> SafeString | str:
    if not record.revision:
        return "none yet"
    if found is None:
        return f"version {record.revision}, gone"
    head = (
        ConversationBrief.objects.filter(chat_id=record.reply.chat_id).values_list("head", flat=True).first()
    )
    now = "still in use" if head == found.version else "since replaced"
    if found.forgotten_at is not None:
        now = "its texts were deleted"
    name = link(f"version {record.revision}", "memory_summaryrevision", "change", found.pk)
    return format_html("{}, {}", name, now)
