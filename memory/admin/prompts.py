"""The prompt that was sent for a reply: rebuilt from its record, verified by its hash, and explained."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, get_args
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from chatmemory.templatetags.viewing import relative_time
from conversations.admin.access import ContentAdmin
from conversations.admin.html import column
from conversations.models import ChatCompletion, Message
from memory.admin.messages import LONG_COLUMNS
from memory.context.build import OTHER, past_context, why_not_exact
from memory.context.plan import Plan, Section
from memory.explain.reasons import Topic, budget_of, explain, name_of
from memory.models import ContextRecord, SummaryRevision
from memory.policies import policy_name
from memory.recall.terms import highlights, terms
from memory.templatetags.remembering import marked

NEAR = 200
"""How many messages before and after a reply are searched for the adjacent replies."""
SEQ = column("sent for", lambda row: f"message {row.reply.seq}")


@admin.register(ContextRecord)
class RecordAdmin(ContentAdmin):
    list_display = (
        *("title_link", SEQ, column("policy", lambda row: policy_name(row.policy))),
        column("summary", lambda row: f"version {row.revision}" if row.revision else "none yet"),
        column("tokens of memory", lambda row: f"{row.tokens:,} of {row.budget:,}"),
        column("turns left out", lambda row: row.unrepresented),
        column("created", lambda row: relative_time(row.reply.created_at)),
    )
    list_display_links = (SEQ,)
    list_select_related = ("reply__chat",)
    chat_path = "reply__chat"
    chat_ordering = ("-reply__seq",)
    page_template = "admin/memory/prompt.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[ContextRecord]:
        rows: QuerySet[ContextRecord] = super().get_queryset(request)
        return rows.defer(*(f"reply__{name}" for name in LONG_COLUMNS))

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
        folded_through = version.through_seq if version else 0
        sentences = explain(Plan.from_json(row.plan), head=row.revision, folded_through=folded_through)
        near = Message.objects.filter(chat_id=reply.chat_id, context_record__isnull=False).only("pk", "seq")
        before = near.filter(seq__lt=reply.seq, seq__gte=reply.seq - NEAR).order_by("-seq")
        after = near.filter(seq__gt=reply.seq, seq__lte=reply.seq + NEAR).order_by("seq")
        return {
            "title": f"Prompt sent for message {reply.seq}",
            "record": row,
            "reply": reply,
            "previous": before.first(),
            "next": after.first(),
            "why": why,
            "budget": budget_of([Section(one["kind"], one["tokens"]) for one in row.sections], row.budget),
            "explained": {topic: [one for one in sentences if one.topic == topic] for topic in get_args(Topic)},
            "version": version,
            "completion": ChatCompletion.objects.filter(pk=reply.pk).first(),
            "sections": _shown(sections),
            "prompt": context.prompt.chat_messages if past and why is None else [],
        }


def _shown(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The sections: of those recalled, the words of the question are marked; with runs of messages, by their chat."""
    question = {term for section in sections if section.kind == "question" for term in terms(section.text)}
    ids = {message_id for section in sections for message_id in section.message_ids}
    # By primary key only: with the chat in the filter, SQLite would read all its messages.
    chats: dict[UUID, dict[UUID, int]] = {}
    for chat, seq, pk in Message.objects.filter(pk__in=ids).values_list("chat_id", "seq", "pk"):
        chats.setdefault(chat, {})[pk] = seq
    return [
        {
            "name": name_of(section.kind),
            "tokens": section.tokens,
            "is_clipped": section.clipped,
            "text": marked(section.text, highlights(section.text, question))
            if section.kind in ("recall", "elsewhere")
            else section.text,
            "runs": [
                (chat, *run)
                for chat, seqs in chats.items()
                for run in runs(seqs[one] for one in section.message_ids if one in seqs)
            ],
        }
        for section in sections
    ]


def runs(seqs: Iterable[int]) -> list[tuple[int, int]]:
    """The seqs as sorted runs of consecutive numbers, each as its first and last."""
    places = groupby(enumerate(sorted(set(seqs))), lambda place: place[1] - place[0])
    found = [[seq for _, seq in run] for _, run in places]
    return [(run[0], run[-1]) for run in found]
