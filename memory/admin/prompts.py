"""The prompt that was sent for a reply: rebuilt from its record, verified by its hash, and explained."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import relative_time
from conversations.admin.access import ContentAdmin, sees_cost
from conversations.admin.html import Step, admin_url, link, usd_of
from conversations.models import Chat, ChatCompletion, Message
from memory.admin.messages import LONG_COLUMNS, pieces
from memory.context.plan import Plan, Section
from memory.context.record import past_context
from memory.explain.reasons import Explanation, Topic, budget_of, explain, name_of
from memory.explain.verify import OTHER, why_not_exact
from memory.models import ContextRecord, SummaryRevision
from memory.policies import policy_name
from memory.recall.terms import highlights, terms

NEAR = 200
"""How many messages before and after a reply are searched for the adjacent replies."""
TOPICS: dict[Topic, str] = {
    "left out": "Left out or shortened",
    "brought back": "Brought back by recall",
    "there": "In the prompt",
}

Facts = list[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class ShownSection:
    """A section, its text if it has any to show, and links to its messages, one for each run of seqs."""

    name: str
    tokens: int
    is_clipped: bool
    text: SafeString | str
    """With the words of the question marked, if it was recalled."""
    messages: list[SafeString]


@admin.register(ContextRecord)
class RecordAdmin(ContentAdmin):
    list_display = (*("called", "seq", "policy_label", "version", "memory_tokens", "left_out", "created"),)
    list_display_links = ("seq",)
    list_defer = ("plan", "sections", *(f"reply__{name}" for name in LONG_COLUMNS))
    chat_path = "reply__chat"
    chat_ordering = ("-reply__seq",)
    page_template = "admin/memory/prompt.html"

    def chat_of(self, row: ContextRecord) -> Chat:
        return row.reply.chat

    def steps(self, row: ContextRecord) -> list[Step]:
        return [(f"Prompt sent for message {row.reply.seq}", "")]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ContextRecord]:
        return super().get_queryset(request).select_related("reply__chat__owner")

    def page_context(self, request: HttpRequest, row: ContextRecord) -> dict[str, Any]:
        reply = row.reply
        sections, prompt, why = rebuilt(row)
        rows = SummaryRevision.objects.filter(chat_id=reply.chat_id, version=row.revision)
        revision = rows.only("pk", "version", "through_seq", "forgotten_at").first()
        sizes = [Section(section["kind"], section["tokens"]) for section in row.sections]
        told = explain(
            Plan.from_json(row.plan),
            head=row.revision,
            folded_through=revision.through_seq if revision else 0,
        )
        return {
            "title": f"Prompt sent for message {reply.seq}",
            "record": row,
            "why": why,
            "budget": budget_of(sizes, row.budget),
            "told": _by_topic(reply.chat_id, told),
            "facts": [
                ("Reply", _of_reply(row, revision)),
                ("Memory used", _of_memory(row)),
                ("Usage", _usage(reply, with_cost=sees_cost(request))),
                *_of_client(reply),
            ],
            "sections": sections,
            "prompt": prompt,
            "hashes": [
                ("Prompt", row.prompt_hash),
                ("Instructions", row.instructions_hash or "none"),
                ("Sources", row.sources_hash or "none"),
            ],
            "plan": json.dumps(row.plan, indent=2, sort_keys=True),
            **_beside(reply),
        }

    @admin.display(description="sent for")
    def seq(self, record: ContextRecord) -> str:
        return f"message {record.reply.seq}"

    @admin.display(description="policy")
    def policy_label(self, record: ContextRecord) -> str:
        return policy_name(record.policy)

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


def rebuilt(record: ContextRecord) -> tuple[list[ShownSection], list[dict[str, str]], str | None]:
    """The sections with their texts, the prompt by role, and None if that equals what was sent, else why it does not.

    If it does not (a message was edited or deleted since), the sections are shown as recorded, without texts.
    """
    past = past_context(record.reply)
    if past is None:
        return [], [], OTHER
    context, sent = past
    why = why_not_exact(record.reply, context, sent)
    if why is None:
        return _shown(record.reply.chat_id, context.sections), context.prompt.chat_messages, None
    return _shown(record.reply.chat_id, sent.sections), [], why


def _shown(chat_id: UUID, sections: Sequence[Section]) -> list[ShownSection]:
    """`sections` with the current seqs of their messages."""
    question = {term for section in sections if section.kind == "question" for term in terms(section.text)}
    ids = {message_id for section in sections for message_id in section.message_ids}
    # By primary key only: with the chat in the filter, SQLite would read all its messages.
    seqs = dict(Message.objects.filter(pk__in=ids).values_list("pk", "seq"))
    return [
        ShownSection(
            name_of(section.kind),
            section.tokens,
            section.clipped,
            pieces(section.text, highlights(section.text, question))
            if section.kind == "recall"
            else section.text,
            [
                timeline_link(chat_id, first, str(first) if first == last else f"{first}–{last}")
                for first, last in runs(seqs[one] for one in section.message_ids if one in seqs)
            ],
        )
        for section in sections
    ]


def runs(seqs: Iterable[int]) -> list[tuple[int, int]]:
    """The seqs as sorted runs of consecutive numbers, each as its first and last."""
    places = groupby(enumerate(sorted(set(seqs))), lambda place: place[1] - place[0])
    found = [[seq for _, seq in run] for _, run in places]
    return [(run[0], run[-1]) for run in found]


def timeline_link(chat_id: UUID, seq: int, text: str) -> SafeString:
    """A link to a message's place in its chat's timeline."""
    url = admin_url("conversations_chat", "change", chat_id, at=seq)
    return format_html('<a href="{}#m{}">{}</a>', url, seq, text)


def _by_topic(chat_id: UUID, told: Sequence[Explanation]) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Sentences by topic, each with a link to the message that it refers to."""

    def view(one: Explanation) -> SafeString | str:
        return timeline_link(chat_id, one.seq, f"View message {one.seq}") if one.seq else ""

    found = [
        (heading, [(one.text, view(one)) for one in told if one.topic == topic])
        for topic, heading in TOPICS.items()
    ]
    return [(heading, sentences) for heading, sentences in found if sentences]


def _beside(reply: Message) -> dict[str, Any]:
    """The replies before and after this one that have a record, if they are near."""
    near = Message.objects.filter(chat_id=reply.chat_id, context_record__isnull=False).only("pk", "seq")
    before = near.filter(seq__lt=reply.seq, seq__gte=reply.seq - NEAR).order_by("-seq")
    after = near.filter(seq__gt=reply.seq, seq__lte=reply.seq + NEAR).order_by("seq")
    return {"previous": before.first(), "next": after.first()}


def _of_reply(record: ContextRecord, revision: SummaryRevision | None) -> Facts:
    reply, summary = record.reply, "none yet"
    if revision is not None:
        text = f"version {revision.version}{' (its text was deleted)' if revision.forgotten_at else ''}"
        summary = link(text, "memory_summaryrevision", "change", revision.pk)
    elif record.revision:
        summary = f"version {record.revision}, gone"
    return [
        ("In the chat", timeline_link(reply.chat_id, reply.seq, f"message {reply.seq}")),
        ("Full text", link("message page", "conversations_message", "change", reply.pk)),
        ("Status", reply.get_status_display()),
        ("Summary", summary),
        ("Policy", policy_name(record.policy)),
    ]


def _of_memory(record: ContextRecord) -> Facts:
    return [
        ("Memory", f"{record.tokens:,} of {record.budget:,} tokens"),
        ("Turns left out", record.unrepresented),
        ("Recent turns shortened", record.dropped),
        ("Truncated items", record.clipped),
        ("Reply notes", record.get_card_display() if record.card else "not requested"),
    ]


def _usage(reply: Message, *, with_cost: bool) -> Facts:
    """Usage as the upstream reported it. Its tokens differ from ours: each model counts in its own way."""
    facts: Facts = [("Model", f"{reply.model or '–'}, as {reply.model_variant or '–'}")]
    if reply.input_tokens is None:
        facts.append(("Tokens", "not reported by the model"))
    else:
        cached = reply.cached_tokens or 0
        share = f" ({cached / reply.input_tokens:.0%})" if reply.input_tokens else ""
        facts += [
            ("Input tokens", f"{reply.input_tokens:,}"),
            ("Cached tokens", f"{cached:,}{share}"),
            ("Output tokens", f"{reply.output_tokens or 0:,}"),
        ]
    if with_cost:
        facts.append(("Cost", "not known" if reply.cost_usd is None else usd_of(reply.cost_usd)))
    return facts


def _of_client(reply: Message) -> list[tuple[str, Facts]]:
    """The request of a client of OpenAI's API for the reply; nothing for other clients."""
    request = ChatCompletion.objects.filter(pk=reply.pk).first()
    if request is None:
        return []
    found = f"{request.decision}, found by its {request.found_by}" if request.found_by else request.decision
    return [("OpenAI client", [("Conversation", found), ("Model asked for", request.model)])]
