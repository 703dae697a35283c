"""The brief of a chat: what it says, what it covers, how it came to be, and what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from conversations.admin import code_of
from conversations.admin_content import OfChatAdmin, Page
from conversations.admin_html import admin_url, link
from conversations.models import Message, Role
from memory import services
from memory.admin.actions import MemoryActions
from memory.coverage import Coverage, coverage_of
from memory.lineage import remembered, text_of
from memory.models import ConversationBrief, SummaryRevision
from memory.progress import told

REVISIONS_SHOWN = 50
"""Newest revisions on the page of a brief; the link beside them leads to all."""

_CHAT_COLUMNS = ("chat__instructions", "chat__metadata", "chat__options")


@admin.register(ConversationBrief)
class BriefAdmin(MemoryActions, OfChatAdmin):
    list_display = (
        *("short", "title", "owner", "policy", "version", "summary", "folded", "unfolded"),
        *("due", "requested", "attempts", "degraded", "updated_at"),
    )
    list_select_related = ("chat__owner",)
    list_defer = ("global_summary", "state", "rebuild", "last_error", *_CHAT_COLUMNS)
    change_form_template = "admin/memory/conversationbrief/change_form.html"

    @admin.display(description="summary tokens")
    def summary(self, brief: ConversationBrief) -> int:
        return brief.token_count

    @admin.display(description="folded to")
    def folded(self, brief: ConversationBrief) -> int:
        return brief.folded_through_seq

    @admin.display(description="turns / tokens not folded")
    def unfolded(self, brief: ConversationBrief) -> str:
        return f"{brief.unfolded_turns} / {brief.unfolded_tokens:,}"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return []  # the page is a template of its own

    def page(self, row: ConversationBrief, name: str) -> Page:
        content = {
            "remembered": remembered(row),
            "state": _pretty(row.state),
            "rebuild": _pretty(row.rebuild),
            "error": _pretty(row.last_error),
        }
        texts = {
            "title": row.chat.title,
            "memory": text_of(row),
            "state": row.state,
            "rebuild": row.rebuild,
            "last error": row.last_error,
        }
        context = {
            "title": f"Brief of {name}",
            "subtitle": None,
            "brief": row,
            "facts": _facts(row),
            "coverage": coverage(row),
            "revisions": revisions(row),
            "revisions_url": admin_url("memory_summaryrevision", "changelist", chat__id__exact=row.chat_id),
        }
        return Page(texts, context, content)


def coverage(brief: ConversationBrief) -> Coverage:
    """Where the finished turns stand in the prompt that would be sent now."""
    folded = Message.objects.filter(
        chat_id=brief.chat_id, role=Role.USER, seq__gt=0, seq__lte=brief.folded_through_seq
    ).count()
    return coverage_of(services.preview(brief.chat).plan, folded)


def revisions(brief: ConversationBrief) -> list[SummaryRevision]:
    """The newest revisions without their texts, newest first."""
    rows = SummaryRevision.objects.filter(chat_id=brief.chat_id).order_by("-version")
    return list(rows.defer("global_summary", "state")[:REVISIONS_SHOWN])


def _facts(brief: ConversationBrief) -> list[tuple[str, list[tuple[str, Any]]]]:
    """The columns of the page's head: headings, and names with values."""
    chat = link(brief.chat_id, "conversations_chat", "change", brief.chat_id)
    span = {"chat__id__exact": brief.chat_id, "seq__lte": brief.folded_through_seq}
    folded = link(f"messages 1–{brief.folded_through_seq}", "conversations_message", "changelist", **span)
    return [
        (
            "Memory",
            [
                *(("Chat", chat), ("Owner", brief.chat.owner), ("Policy", brief.policy)),
                ("Tokens of it", brief.token_count),
                ("Folded", folded if brief.folded_through_seq else "nothing yet"),
                ("Degraded", "yes: made by the built-in summarizer" if brief.degraded else "no"),
            ],
        ),
        (
            "Not folded yet",
            [
                *(("Turns", brief.unfolded_turns), ("Tokens", brief.unfolded_tokens)),
                ("Tokens as lines", brief.unfolded_line_tokens),
                ("Due", "yes" if brief.due else "no"),
                ("Requested", brief.requested or "nothing"),
            ],
        ),
        (
            "Work on it",
            [
                ("Version, in use, epoch", f"{brief.version}, {brief.head}, {brief.epoch}"),
                *(("Failed attempts", brief.attempts), ("Last error", code_of(brief.last_error))),
                ("Rebuild", _rebuild(brief)),
                ("Next attempt", brief.next_attempt_at or "any time"),
                (
                    "Lease",
                    f"{brief.lease_owner}, until {brief.lease_expires_at}" if brief.lease_owner else "free",
                ),
                ("Changed", brief.updated_at),
            ],
        ),
    ]


def _rebuild(brief: ConversationBrief) -> str:
    rebuild = told(brief)
    if rebuild is None:
        return "none"
    if rebuild.of_seq is None:
        return "asked for, not begun"
    return f"messages 1–{rebuild.through_seq} of {rebuild.of_seq}, {rebuild.turns} turns"


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) if value else ""
