"""The memory of a chat: its text, what it covers, the work on it, its versions, and editing it by hand.

The policy defines the editable fields and their validation; `memory.revisions.by_hand` publishes the result.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path

from chatmemory.errors import ChatMemoryError
from conversations.admin.access import may_see, number_in, refused, signed_in
from conversations.admin.html import admin_url, column, heading, since
from conversations.models import Chat
from memory.admin.actions import MAY_CHANGE, MemoryActions
from memory.admin.filters import MemoryFilter, memory_of
from memory.briefs import readable_parts, unfolded
from memory.folding.request import estimate_for
from memory.models import ConversationBrief, RevisionKind, SummaryRevision
from memory.policies import policy_name
from memory.policies.state_parts import BadEdit, EditField
from memory.revisions.by_hand import StaleEdit, edit_by_hand, editable_parts
from memory.status import work_of

VERSIONS_SHOWN = 25
UNDONE = (RevisionKind.FOLD, RevisionKind.REBUILD, RevisionKind.MANUAL)
"""The kinds of versions that one button undoes: it restores the version that they were made from."""
FIELD = "part-"
"""The prefix of a part's name in the form."""


MEMORY = column("memory", memory_of)


@admin.register(ConversationBrief)
class BriefAdmin(MemoryActions):
    list_display = (
        *("title_link", column("owner", lambda row: row.chat.owner)),
        *(column("policy", lambda row: policy_name(row.policy)), MEMORY, since("updated_at")),
    )
    list_display_links = (MEMORY,)
    list_select_related = ("chat__owner",)
    list_filter = (MemoryFilter,)
    page_template = "admin/memory/brief.html"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.edit_view)
        edit = path("<uuid:chat_id>/edit/", view, name="memory_conversationbrief_edit")
        return [edit, *super().get_urls()]

    def page_context(self, request: HttpRequest, row: ConversationBrief) -> dict[str, Any]:
        work = work_of(row)
        versions = SummaryRevision.objects.filter(chat_id=row.chat_id).select_related("created_by")
        newest = versions.defer("global_summary", "state", "soft_faults").order_by("-version")
        in_use = SummaryRevision.objects.filter(chat=row.chat_id, version=row.head, kind__in=UNDONE)
        return {
            "title": f"Memory of {heading(row.chat)}",
            "brief": row,
            "work": work,
            "error": (row.last_error or {}).get("message", "") if work.attempts else "",
            "remembered": readable_parts(row),
            "unfolded": unfolded(row),
            "versions": newest[:VERSIONS_SHOWN],
            "before": newest.filter(version__in=in_use.values("parent"), forgotten_at=None).first(),
        }

    def edit_view(self, request: HttpRequest, chat_id: UUID) -> HttpResponse:
        """The form for the version in use; a POST saves it as a new version."""
        if not request.user.has_perm(MAY_CHANGE):
            raise PermissionDenied
        if not may_see(request):
            return refused(request)
        brief = get_object_or_404(ConversationBrief.objects.select_related("chat__owner"), pk=chat_id)
        try:
            parts = editable_parts(brief)
            if request.method == "POST":
                return self._save(request, brief.chat)
        except (BadEdit, StaleEdit) as problem:
            return self._form(request, brief, parts, problem)
        except ChatMemoryError as error:
            self.message_user(request, error.message, messages.ERROR)
            return redirect(admin_url("memory_conversationbrief", "change", chat_id))
        return self._form(request, brief, parts)

    def _save(self, request: HttpRequest, chat: Chat) -> HttpResponse:
        """Save it, and show the new version with its changes."""
        texts, pauses = _texts(request.POST), bool(request.POST.get("pause"))
        on_version = number_in(request.POST.get("on_version")) or 0
        brief = edit_by_hand(chat, texts, signed_in(request), on_version=on_version, pauses=pauses)
        self.log_change(request, brief, f"Edited by hand: version {brief.head}, from {on_version}.")
        paused = " Updates are paused." if brief.paused_at else ""
        self.message_user(request, f"Saved as version {brief.head}, now in use.{paused}", messages.SUCCESS)
        saved = SummaryRevision.objects.only("pk").get(chat=chat, version=brief.head)
        return redirect(admin_url("memory_summaryrevision", "change", saved.pk))

    def _form(
        self,
        request: HttpRequest,
        brief: ConversationBrief,
        parts: Sequence[EditField],
        problem: BadEdit | StaleEdit | None = None,
    ) -> HttpResponse:
        sent, is_stale = _texts(request.POST), isinstance(problem, StaleEdit)
        context = {
            "title": f"Edit the memory of {heading(brief.chat)}",
            "brief": brief,
            "fields": [(part, sent.get(part.name, part.text)) for part in parts],
            "field": FIELD,
            "problem": problem,
            "again": estimate_for(brief.chat, "update"),
            "now": readable_parts(brief) if is_stale else [],
        }
        answer = self.page(request, brief, "admin/memory/edit.html", context)
        answer.status_code = 409 if is_stale else 400 if problem else 200
        return answer


def _texts(form: Mapping[str, Any]) -> dict[str, str]:
    """The texts of the submitted form, by the names of their parts."""
    return {name.removeprefix(FIELD): str(text) for name, text in form.items() if name.startswith(FIELD)}
