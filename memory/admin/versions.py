"""A version of a chat's memory: its text, what it kept and lost, its difference to any other, and restoring it."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import get_object_or_404, redirect
from django.template.defaultfilters import pluralize
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.errors import ChatMemoryError
from chatmemory.templatetags.viewing import viewer_time
from conversations.admin.access import CHAT_TEXTS, ContentAdmin, may_see, sees_cost
from conversations.admin.html import Facts, Step, admin_url, as_json, column, heading, link, since, usd_of
from memory.admin.actions import MAY_CHANGE
from memory.admin.briefs import kind_label, memory_step, number_in
from memory.admin.filters import chip
from memory.briefs import readable_parts
from memory.folding.answer_checks import SOFT_FAULTS
from memory.folding.estimate import estimate_for
from memory.models import SummaryRevision
from memory.policies import policy_name
from memory.revisions.by_hand import restore
from memory.revisions.diff import difference

HELD_AGAINST = {
    "manual": "the version that was edited mention",
    "rebuild": "all messages up to there mention",
}
"""What the kept share of a version is a share of, if that is not the turns that it folded."""


class QualityFilter(admin.BooleanFieldListFilter):
    """A filter for the flag `is_wanting`, with the name used in the interface."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = "low quality"


def _share(row: SummaryRevision) -> str:
    share = row.retained.get("share")
    return "–" if share is None else f"{share:.0%}"


def _kept(row: SummaryRevision) -> SafeString | str:
    """The share of details kept, with the problems of the version."""
    faults = ", ".join(filter(None, ("degraded" * row.degraded, "low quality" * row.is_wanting)))
    return format_html("{}<small>{}</small>", _share(row), chip("bad", faults)) if faults else _share(row)


NUMBER = column("version", lambda row: f"Version {row.version}")


@admin.register(SummaryRevision)
class VersionAdmin(ContentAdmin):
    list_display = (
        *("called", NUMBER, column("what happened", kind_label)),
        column("messages", lambda row: f"{row.from_seq}–{row.through_seq}" if row.turns else "–"),
        column("tokens", lambda row: f"{row.tokens_before:,} → {row.tokens_after:,}"),
        *(column("details kept", _kept), since("created_at")),
    )
    list_display_links = (NUMBER,)
    list_defer = ("global_summary", "state", *CHAT_TEXTS)
    list_filter = (("is_wanting", QualityFilter),)  # the only one with an index of its own
    chat_ordering = ("chat", "-version")
    chat_filters = ("kind", "degraded")
    lookups = ("is_wanting__exact",)
    page_template = "admin/memory/version.html"

    def steps(self, row: SummaryRevision) -> list[Step]:
        return [memory_step(row.chat_id), (f"Version {row.version}", "")]

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.restore_view)
        restore_url = path("<int:pk>/restore/", view, name="memory_summaryrevision_restore")
        return [restore_url, *super().get_urls()]

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        cost = [column("cost", lambda row: usd_of(row.cost_usd))] if sees_cost(request) else []
        return [*super().get_list_display(request), *cost]

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
            "facts": _facts(row, with_cost=sees_cost(request)),
            "previous": beside.get(row.version - 1),
            "next": beside.get(row.version + 1),
            "newest": versions.values_list("version", flat=True).last(),
            "remembered": readable_parts(row),
            "against": against,
            "other": other,
            "difference": difference(row, other) if has_texts else None,
            "share": _share(row),
            "held_against": HELD_AGAINST.get(row.kind, "the summarized turns mention"),
            "kept": row.retained.get("kept", []),
            "lost": row.retained.get("lost", []),
            "missing": list(dict.fromkeys(lost_by_answer)),
            "wanting": dict.fromkeys(SOFT_FAULTS[fault["fault"]] for fault in row.soft_faults),
            "state": as_json(row.state),
            "may_change": request.user.has_perm(MAY_CHANGE) and row.forgotten_at is None,
            "again": estimate_for(row.chat, "update", after_seq=row.through_seq),
            "again_after": row.through_seq,
        }

    def restore_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Make the version the memory in use, and show the memory to those who may see it."""
        if not request.user.has_perm(MAY_CHANGE):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        row = get_object_or_404(SummaryRevision.objects.select_related("chat"), pk=pk)
        assert isinstance(request.user, User)  # the admin admits only users
        try:
            brief = restore(row.chat, row.version, request.user, pauses=bool(request.POST.get("pause")))
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


def _facts(row: SummaryRevision, *, with_cost: bool) -> Facts:
    span: SafeString | str = "nothing"
    if row.through_seq >= row.from_seq:
        text = f"{row.turns} turn{pluralize(row.turns)}, messages {row.from_seq}–{row.through_seq}"
        span = link(text, "conversations_chat", "change", row.chat_id, at=row.from_seq)
    elif row.through_seq:
        span = f"nothing new; covers messages 1–{row.through_seq:,}"
    return {
        "Version": {
            "What happened": kind_label(row),
            "Policy": policy_name(row.policy),
            "Made from": f"version {row.parent}" if row.parent else "no earlier version",
            "Summarized": span,
            "Tokens": f"{row.tokens_before:,} before, {row.tokens_after:,} after",
            **({"Focus": row.focus} if row.focus else {}),
        },
        "Origin": {
            "By": row.created_by or "the worker",
            "When": viewer_time(row.created_at),
            "Model": f"{row.model or '–'}{' (built-in)' if row.degraded else ''}",
            "Usage": f"{row.input_tokens:,} input tokens, {row.output_tokens:,} output tokens",
            **({"Cost": usd_of(row.cost_usd)} if with_cost else {}),
            "Duration": f"{row.duration_ms:,} ms",
            "Instructions": "MEMORY_SUMMARIZER_INSTRUCTIONS" if row.custom_instructions else "of the policy",
        },
    }
