"""The prompt that was sent for a reply: rebuilt from its record, verified by its hash, and explained."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import relative_time
from conversations.admin.access import ContentAdmin, sees_cost
from conversations.admin.html import Facts, Step, admin_url, as_json, column, link, usd_of
from conversations.models import ChatCompletion, Message
from memory.admin.messages import LONG_COLUMNS, pieces
from memory.context.build import past_context
from memory.context.plan import Plan, Section
from memory.explain.reasons import Topic, budget_of, explain, name_of
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
SEQ = column("sent for", lambda row: f"message {row.reply.seq}")


@admin.register(ContextRecord)
class RecordAdmin(ContentAdmin):
    list_display = (
        *("called", SEQ, column("policy", lambda row: policy_name(row.policy))),
        column("summary", lambda row: f"version {row.revision}" if row.revision else "none yet"),
        column("tokens of memory", lambda row: f"{row.tokens:,} of {row.budget:,}"),
        column("turns left out", lambda row: row.unrepresented),
        column("created", lambda row: relative_time(row.reply.created_at)),
    )
    list_display_links = (SEQ,)
    list_defer = ("plan", "sections", *(f"reply__{name}" for name in LONG_COLUMNS))
    list_select_related = ("reply__chat",)
    chat_path = "reply__chat"
    chat_ordering = ("-reply__seq",)
    page_template = "admin/memory/prompt.html"

    def steps(self, row: ContextRecord) -> list[Step]:
        return [(f"Prompt sent for message {row.reply.seq}", "")]

    def page_context(self, request: HttpRequest, row: ContextRecord) -> dict[str, Any]:
        reply = row.reply
        why: str | None = OTHER
        sections: Sequence[Section] = ()
        if past := past_context(reply):
            context, sent = past
            why = why_not_exact(reply, context, sent)
            # If it can't be rebuilt, the sections are shown as recorded, which is without texts.
            sections = sent.sections if why else context.sections
        versions = SummaryRevision.objects.filter(chat_id=reply.chat_id, version=row.revision)
        version = versions.only("pk", "version", "through_seq", "forgotten_at").first()
        near = Message.objects.filter(chat_id=reply.chat_id, context_record__isnull=False).only("pk", "seq")
        before = near.filter(seq__lt=reply.seq, seq__gte=reply.seq - NEAR).order_by("-seq")
        after = near.filter(seq__gt=reply.seq, seq__lte=reply.seq + NEAR).order_by("seq")
        return {
            "title": f"Prompt sent for message {reply.seq}",
            "record": row,
            "previous": before.first(),
            "next": after.first(),
            "why": why,
            "budget": budget_of([Section(one["kind"], one["tokens"]) for one in row.sections], row.budget),
            "explained": _explained(row, version.through_seq if version else 0),
            "facts": _facts(row, version, with_cost=sees_cost(request)),
            "sections": _shown(reply.chat_id, sections),
            "prompt": context.prompt.chat_messages if past and why is None else [],
            "hashes": {
                "Prompt": row.prompt_hash,
                "Instructions": row.instructions_hash or "none",
                "Sources": row.sources_hash or "none",
            },
            "plan": as_json(row.plan),
        }


def _shown(chat_id: UUID, sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The sections: of those recalled, the words of the question are marked; with links to the current messages."""
    question = {term for section in sections if section.kind == "question" for term in terms(section.text)}
    ids = {message_id for section in sections for message_id in section.message_ids}
    # By primary key only: with the chat in the filter, SQLite would read all its messages.
    seqs = dict(Message.objects.filter(pk__in=ids).values_list("pk", "seq"))
    return [
        {
            "name": name_of(section.kind),
            "tokens": section.tokens,
            "is_clipped": section.clipped,
            "text": pieces(section.text, highlights(section.text, question))
            if section.kind == "recall"
            else section.text,
            "messages": [
                timeline_link(chat_id, first, str(first) if first == last else f"{first}–{last}")
                for first, last in runs(seqs[one] for one in section.message_ids if one in seqs)
            ],
        }
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


def _explained(record: ContextRecord, folded_through: int) -> dict[str, list[tuple[str, Any]]]:
    """Sentences by topic, each with a link to the message that it refers to."""
    found: dict[str, list[tuple[str, Any]]] = {heading: [] for heading in TOPICS.values()}
    for one in explain(Plan.from_json(record.plan), head=record.revision, folded_through=folded_through):
        view = timeline_link(record.reply.chat_id, one.seq, f"View message {one.seq}") if one.seq else ""
        found[TOPICS[one.topic]].append((one.text, view))
    return {heading: sentences for heading, sentences in found.items() if sentences}


def _facts(record: ContextRecord, version: SummaryRevision | None, *, with_cost: bool) -> Facts:
    reply = record.reply
    summary: SafeString | str = f"version {record.revision}, gone" if record.revision else "none yet"
    if version is not None:
        text = f"version {version.version}{' (its text was deleted)' if version.forgotten_at else ''}"
        summary = link(text, "memory_summaryrevision", "change", version.pk)
    # Usage is as the upstream reported it. Its tokens differ from ours: each model counts in its own way.
    usage: dict[str, Any] = {"Tokens": "not reported by the model"}
    if reply.input_tokens is not None:
        cached = reply.cached_tokens or 0
        share = f" ({cached / reply.input_tokens:.0%})" if reply.input_tokens else ""
        usage = {
            "Input tokens": f"{reply.input_tokens:,}",
            "Cached tokens": f"{cached:,}{share}",
            "Output tokens": f"{reply.output_tokens or 0:,}",
        }
    if with_cost:
        usage["Cost"] = "not known" if reply.cost_usd is None else usd_of(reply.cost_usd)
    facts: Facts = {
        "Reply": {
            "In the chat": timeline_link(reply.chat_id, reply.seq, f"message {reply.seq}"),
            "Full text": link("message page", "conversations_message", "change", reply.pk),
            "Status": reply.get_status_display(),
            "Summary": summary,
            "Policy": policy_name(record.policy),
        },
        "Memory used": {
            "Memory": f"{record.tokens:,} of {record.budget:,} tokens",
            "Turns left out": record.unrepresented,
            "Recent turns shortened": record.dropped,
            "Truncated items": record.clipped,
            "Reply notes": record.get_card_display() if record.card else "not requested",
        },
        "Usage": {"Model": f"{reply.model or '–'}, as {reply.model_variant or '–'}", **usage},
    }
    if request := ChatCompletion.objects.filter(pk=reply.pk).first():  # of a client of OpenAI's API
        found = f", found by its {request.found_by}" if request.found_by else ""
        facts["OpenAI client"] = {
            "Conversation": f"{request.decision}{found}",
            "Model asked for": request.model,
        }
    return facts
