"""The brief of a chat: its text, what it covers, how it was made, and its problems.

Its page is the history of the summary: revisions by version, one page of them at a time, any two of which can be
compared.
"""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import relative_time, short_id, viewer_time
from conversations.admin.access import OfChatAdmin, Page, sees_cost
from conversations.admin.html import Step, admin_url, link, since
from memory import services
from memory.admin.actions import MemoryActions, progress_url
from memory.admin.diff import DiffPage
from memory.admin.edit import EditPage
from memory.admin.hold import HoldPages
from memory.admin.progress import ProgressPage
from memory.admin.states import PARAMETER, MemoryFilter, health_of, memory_steps
from memory.briefs import readable_parts, text_of
from memory.explain.coverage import Coverage, coverage_of
from memory.explain.lineage import folded_turns, versions_of
from memory.explain.reasons import error_words
from memory.models import ConversationBrief, SummaryRevision
from memory.policies import policy_name
from memory.work import work_of

REVISIONS_SHOWN = 25
"""Revisions on one page of a brief's history."""

KIND_LABELS = {
    "fold": ("↧", "updated"),
    "rebuild": ("⟳", "rebuilt"),
    "restore": ("↶", "restored"),
    "manual": ("✎", "edited by hand"),
    "retract": ("✂", "rolled back"),
    "branch": ("⑂", "copied"),
}
"""A sign and a word for each kind of revision in the history."""


def kind_label(revision: SummaryRevision) -> tuple[str, str]:
    """Sign and word for one revision: a clearing is distinguished from other edits by hand."""
    is_cleared = revision.kind == "manual" and not revision.tokens_after and not revision.forgotten_at
    return ("∅", "cleared") if is_cleared else KIND_LABELS[revision.kind]


_CHAT_COLUMNS = ("chat__instructions", "chat__metadata", "chat__options")


@admin.register(ConversationBrief)
class BriefAdmin(ProgressPage, DiffPage, EditPage, HoldPages, MemoryActions, OfChatAdmin):
    list_display = (
        *("called", "owner", "health", "policy_label", "summary", "unfolded"),
        since("updated_at"),
    )
    list_select_related = ("chat__owner",)
    list_display_links = None
    list_defer = ("global_summary", "state", "options", *_CHAT_COLUMNS)
    list_filter = (MemoryFilter,)
    lookups = (PARAMETER,)
    change_form_template = "admin/memory/conversationbrief/change_form.html"

    class Media:
        css = {"all": ("chatmemory/history.css",)}

    @admin.display(description="policy")
    def policy_label(self, brief: ConversationBrief) -> str:
        return policy_name(brief.policy)

    @admin.display(description="summary")
    def summary(self, brief: ConversationBrief) -> SafeString | str:
        if not brief.head:
            return "none yet"
        told = f"{brief.token_count:,} tokens, covers messages 1–{brief.folded_through_seq:,}"
        return format_html("version {}<small>{}</small>", brief.head, told)

    @admin.display(description="unsummarized tokens")
    def unfolded(self, brief: ConversationBrief) -> str:
        return f"{brief.unfolded_tokens:,}"

    @admin.display(description="chat")
    def called(self, row: ConversationBrief) -> SafeString:
        """Link to the memory: the row's own page."""
        return self._named_link(row, "memory_conversationbrief")

    @admin.display(description="chat")
    def in_chat(self, row: ConversationBrief) -> SafeString:
        return link(short_id(row.pk), "memory_conversationbrief", "change", row.pk)

    def steps(self, row: ConversationBrief) -> list[Step]:
        return memory_steps(row.pk)

    @admin.display(description="status")
    def health(self, brief: ConversationBrief) -> SafeString:
        """The status; after a failure also its reason and the time of the next attempt."""
        work = work_of(brief, has_worker=lambda: True)
        if not work.attempts:
            return health_of(brief)
        why = error_words(work.error) if work.error else ""
        if brief.next_attempt_at is None:
            return format_html("{}<small>{}</small>", health_of(brief), why)
        when = relative_time(brief.next_attempt_at)
        return format_html("{}<small>{} Next attempt {}</small>", health_of(brief), why, when)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return []  # the page is a template of its own

    def page(self, row: ConversationBrief, name: str) -> Page:
        content = {
            "remembered": readable_parts(row),
            "state": _pretty(row.state),
            "error": (row.last_error or {}).get("message", "") if work_of(row).attempts else "",
        }
        texts = {
            "title": row.chat.title,
            "memory": text_of(row),
            "state": row.state,
            "rebuild": row.rebuild,
            "last error": row.last_error,
        }
        context = {
            "title": f"Memory of {name}",
            "subtitle": None,
            "brief": row,
            "facts": _facts(row),
            "coverage": coverage(row),
            "progress_url": progress_url(row),
        }
        return Page(texts, context, content)

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        brief = kwargs["obj"]
        context |= {
            "history": history(brief, request.GET.get("upto", "")),
            "sees_cost": sees_cost(request),
            "may_edit": bool(brief.head) and self.has_edit_permission(request),
            "may_see_revisions": self.admin_site.get_model_admin(SummaryRevision).has_view_permission(
                request
            ),
            "revisions_url": admin_url("memory_summaryrevision", "changelist", chat__id__exact=brief.chat_id),
        }
        return super().render_change_form(request, context, *args, **kwargs)


def coverage(brief: ConversationBrief) -> Coverage:
    """How the turns would be divided between summary and prompt if the last question were sent again."""
    return coverage_of(services.preview_last(brief.chat).plan, folded_turns(brief, versions_of(brief)))


def history(brief: ConversationBrief, upto: str) -> dict[str, Any]:
    """One page of the revisions without their texts, newest first: those up to version `upto`, or the newest."""
    top = min(int(upto), brief.version) if upto.isdecimal() and len(upto) < 10 else brief.version
    top = max(top, min(REVISIONS_SHOWN, brief.version))
    rows = SummaryRevision.objects.filter(
        chat_id=brief.chat_id, version__lte=top, version__gt=top - REVISIONS_SHOWN
    )
    shown = rows.defer("global_summary", "state", "soft_faults", "drift").select_related("created_by")
    return {
        "rows": [
            {"revision": one, "happened": kind_label(one), "share": one.retained.get("share")}
            for one in shown.order_by("-version")
        ],
        "older": top - REVISIONS_SHOWN if top > REVISIONS_SHOWN else None,
        "newer": min(top + REVISIONS_SHOWN, brief.version) if top < brief.version else None,
        "oldest": max(1, top - REVISIONS_SHOWN + 1),
        "newest": top,
        "before_newest": top - 1,
    }


def _facts(brief: ConversationBrief) -> list[tuple[str, list[tuple[str, Any]]]]:
    """The columns of the page's head: headings, and names with values."""
    work = work_of(brief)
    chat = link(brief.chat_id, "conversations_chat", "change", brief.chat_id)
    folded = link(
        f"messages 1–{brief.folded_through_seq:,}",
        "conversations_chat",
        "change",
        brief.chat_id,
        at=brief.folded_through_seq,
    )
    return [
        (
            "Memory",
            [
                *(("Chat", chat), ("Owner", brief.chat.owner), ("Policy", policy_name(brief.policy))),
                ("Size in tokens", brief.token_count),
                ("Covers", folded if brief.folded_through_seq else "nothing yet"),
                ("Degraded", "yes (built-in summarizer)" if brief.degraded else "no"),
            ],
        ),
        (
            "Unsummarized",
            [
                *(("Turns", brief.unfolded_turns), ("Tokens", brief.unfolded_tokens)),
                ("Tokens as one-line summaries", brief.unfolded_line_tokens),
            ],
        ),
        (
            "Processing",
            [
                ("Status", work.label),
                *([("Next attempt", viewer_time(brief.next_attempt_at))] if work.attempts else []),
                (
                    "Worker",
                    format_html("{}, until {}", brief.lease_owner, viewer_time(brief.lease_expires_at))
                    if brief.lease_owner
                    else "idle",
                ),
                ("Changed", viewer_time(brief.updated_at)),
            ],
        ),
    ]


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) if value else ""
