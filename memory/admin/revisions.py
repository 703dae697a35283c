"""A revision of a chat's memory: its text, what changed in it, what it kept and lost, and where it came from."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import pluralize
from django.utils.safestring import SafeString

from conversations.admin_facts import OfChatAdmin
from conversations.admin_html import heading, link
from memory.admin.remembered import remembered, text_of
from memory.models import SummaryRevision
from memory.worddiff import Piece, word_diff


@admin.register(SummaryRevision)
class RevisionAdmin(OfChatAdmin):
    list_display = (
        *("version", "in_chat", "title", "owner", "kind", "span", "turns", "tokens"),
        *("retained_share", "cost_usd", "duration", "model", "degraded", "created_at"),
    )
    list_select_related = ("chat__owner",)
    list_defer = ("global_summary", "state", "chat__instructions", "chat__metadata", "chat__options")
    chat_ordering = ("chat", "-version")
    chat_filters = ("kind", "degraded")
    change_form_template = "admin/memory/summaryrevision/change_form.html"

    @admin.display(description="tokens")
    def tokens(self, revision: SummaryRevision) -> str:
        return f"{revision.tokens_before:,} → {revision.tokens_after:,}"

    @admin.display(description="duration")
    def duration(self, revision: SummaryRevision) -> str:
        return f"{revision.duration_ms:,} ms"

    @admin.display(description="messages")
    def span(self, revision: SummaryRevision) -> str:
        return f"{revision.from_seq}–{revision.through_seq}"

    @admin.display(description="retained")
    def retained_share(self, revision: SummaryRevision) -> str:
        share = revision.retained.get("share")
        return "–" if share is None else f"{share:.0%}"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return []  # the page is a template of its own

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        revision: SummaryRevision = kwargs["obj"]
        context |= {
            "title": f"Revision {revision.version} of {heading(revision.chat.title)}",
            "subtitle": None,
            "revision": revision,
            "remembered": remembered(revision),
            "facts": _facts(revision),
            "diff": changes(revision),
            "state": json.dumps(revision.state, indent=2, ensure_ascii=False, sort_keys=True)
            if revision.state
            else "",
            "kept": revision.retained.get("kept", []),
            "lost": revision.retained.get("lost", []),
            "share": self.retained_share(revision),
        }
        return super().render_change_form(request, context, *args, **kwargs)


def changes(revision: SummaryRevision) -> list[Piece]:
    """The revision's text against its parent's; none without a parent."""
    if not revision.parent:
        return []
    parent = SummaryRevision.objects.filter(chat_id=revision.chat_id, version=revision.parent).first()
    return word_diff(text_of(parent), text_of(revision)) if parent else []


def _facts(revision: SummaryRevision) -> list[tuple[str, list[tuple[str, Any]]]]:
    chat_id = revision.chat_id
    return [
        (
            "What",
            [
                ("Chat", link(chat_id, "conversations_chat", "change", chat_id)),
                ("Brief", link("the memory in use", "memory_conversationbrief", "change", chat_id)),
                ("Kind", f"{revision.kind}, by policy {revision.policy}"),
                ("Parent", _parent(revision)),
                ("Folded", _span(revision)),
                ("Tokens", f"{revision.tokens_before:,} before, {revision.tokens_after:,} after"),
            ],
        ),
        (
            "Where from",
            [
                ("Model", f"{revision.model or '–'}{' (degraded)' if revision.degraded else ''}"),
                ("Call", f"{revision.input_tokens:,} tokens in, {revision.output_tokens:,} out"),
                ("Cost", f"{revision.cost_usd} USD" if revision.cost_usd is not None else "not known"),
                ("Duration", f"{revision.duration_ms:,} ms"),
                ("By", revision.created_by or "the worker"),
                ("When", revision.created_at),
            ],
        ),
        ("Hashes", [("Prompt", revision.prompt_hash or "–"), ("Source", revision.source_hash or "–")]),
    ]


def _span(revision: SummaryRevision) -> SafeString:
    span = {
        "seq__gte": revision.from_seq,
        "seq__lte": revision.through_seq,
        "chat__id__exact": revision.chat_id,
    }
    text = f"{revision.turns} turn{pluralize(revision.turns)}, messages {revision.from_seq}–{revision.through_seq}"
    return link(text, "conversations_message", "changelist", **span)


def _parent(revision: SummaryRevision) -> SafeString | str:
    parent = (
        SummaryRevision.objects.filter(chat_id=revision.chat_id, version=revision.parent or 0)
        .only("pk")
        .first()
    )
    if parent is None:
        return f"revision {revision.parent}, gone" if revision.parent else "none: the first"
    return link(f"revision {revision.parent}", "memory_summaryrevision", "change", parent.pk)
