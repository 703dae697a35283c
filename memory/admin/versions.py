"""A version of a chat's memory: its text, what it kept and lost, its difference to any other, and restoring it."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.errors import ChatMemoryError
from conversations.admin.access import COST, ContentAdmin, may_see, number_in, signed_in
from conversations.admin.html import admin_url, column, heading, since
from memory.admin.actions import MAY_CHANGE
from memory.admin.filters import chip
from memory.briefs import readable_parts
from memory.folding.answer_checks import SOFT_FAULTS
from memory.folding.request import estimate_for
from memory.models import SummaryRevision
from memory.revisions.by_hand import restore
from memory.revisions.diff import difference
from memory.templatetags.remembering import kind_label


def _kept(row: SummaryRevision) -> SafeString | str:
    """The share of details kept, with the problems of the version."""
    kept = "–" if row.kept_percent is None else f"{row.kept_percent}%"
    faults = ", ".join(filter(None, ("degraded" * row.degraded, "low quality" * row.is_wanting)))
    return format_html("{}<small>{}</small>", kept, chip("bad", faults)) if faults else kept


NUMBER = column("version", lambda row: f"Version {row.version}")


@admin.register(SummaryRevision)
class VersionAdmin(ContentAdmin):
    list_display = (
        *("title_link", NUMBER, column("what happened", kind_label)),
        column("messages", lambda row: f"{row.from_seq}–{row.through_seq}" if row.turns else "–"),
        column("tokens", lambda row: f"{row.tokens_before:,} → {row.tokens_after:,}"),
        *(column("details kept", _kept), since("created_at"), COST),
    )
    list_display_links = (NUMBER,)
    chat_ordering = ("chat", "-version")
    chat_filters = ("kind", "degraded")
    page_template = "admin/memory/version.html"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.restore_view)
        restore_url = path("<int:pk>/restore/", view, name="memory_summaryrevision_restore")
        return [restore_url, *super().get_urls()]

    def page_context(self, request: HttpRequest, row: SummaryRevision) -> dict[str, Any]:
        versions = SummaryRevision.objects.filter(chat_id=row.chat_id).order_by("version")
        near = versions.filter(version__in=(row.version - 1, row.version + 1))
        beside = dict(near.values_list("version", "pk"))
        # Compared with the version it was made from, or with another by `?against=`.
        against = number_in(request.GET.get("against")) or row.parent
        other = versions.filter(version=against or 0).first()
        has_texts = other is not None and other.forgotten_at is None and row.forgotten_at is None
        lost_by_answer = [span for fault in row.soft_faults for span in fault.get("lost", ())]
        return {
            "title": f"Version {row.version} of {heading(row.chat)}",
            "version": row,
            "previous": beside.get(row.version - 1),
            "next": beside.get(row.version + 1),
            "remembered": readable_parts(row),
            "against": against,
            "other": other,
            "difference": difference(row, other) if has_texts else None,
            "missing": list(dict.fromkeys(lost_by_answer)),
            "wanting": dict.fromkeys(SOFT_FAULTS[fault["fault"]] for fault in row.soft_faults),
            "again": estimate_for(row.chat, "update", after_seq=row.through_seq),
        }

    def restore_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Make the version the memory in use, and show the memory, if the viewer may see it."""
        if not request.user.has_perm(MAY_CHANGE):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        row = get_object_or_404(SummaryRevision.objects.select_related("chat"), pk=pk)
        try:
            brief = restore(row.chat, row.version, signed_in(request), pauses=bool(request.POST.get("pause")))
        except ChatMemoryError as error:
            self.message_user(request, error.message, messages.ERROR)
        else:
            self.log_change(request, row, f"Restored as version {brief.version}.")
            text = f"Version {row.version} was restored: it is now version {brief.version}, and in use."
            text += " Updates are paused." if brief.paused_at else ""
            self.message_user(request, text, messages.SUCCESS)
        if not may_see(request):
            return redirect("admin:index")
        return redirect(admin_url("memory_conversationbrief", "change", row.chat_id))
