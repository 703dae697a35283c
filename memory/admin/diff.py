"""The differences between any two revisions of one chat: their texts word by word, their spans, their numbers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from conversations.admin.access import may_see, withheld
from conversations.admin.audit_log import record
from conversations.admin.html import chat_trail, heading
from conversations.models import Chat
from memory.admin.states import memory_steps
from memory.briefs import text_of
from memory.models import ConversationBrief, SummaryRevision
from memory.revisions.diff import difference


class DiffPage(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """Adds a page to briefs that compares two of their revisions."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.diff_view)
        return [path("<uuid:chat_id>/diff/", view, name="memory_conversationbrief_diff"), *super().get_urls()]

    def diff_view(self, request: HttpRequest, chat_id: UUID) -> HttpResponse:
        """The page: `?from=3&to=7`, in either order."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        brief = get_object_or_404(ConversationBrief.objects.select_related("chat__owner"), pk=chat_id)
        wanted = sorted(_version(request, name, brief) for name in ("from", "to"))
        found = {row.version: row for row in _revisions(brief, wanted)}
        older, newer = (found.get(version) for version in wanted)
        chat, may = brief.chat, may_see(request)
        context: dict[str, Any] = {
            **self.admin_site.each_context(request),
            "title": f"Versions {wanted[0]} and {wanted[1]} of {heading(chat, may)}",
            "trail": chat_trail(
                chat, may, *memory_steps(chat.pk, (f"Compare versions {wanted[0]} and {wanted[1]}", ""))
            ),
            "opts": self.opts,
            "media": self.media,
            "brief": brief,
            "wanted": wanted,
            "older": older,
            "newer": newer,
            "is_missing": older is None or newer is None,
            "is_forgotten": any(row is not None and row.forgotten_at for row in (older, newer)),
            "may_see": may,
        }
        if older is not None and newer is not None:
            tokens = newer.tokens_after - older.tokens_after
            kind = newer.kind if newer.parent == older.version else ""
            context |= {"tokens": tokens, "fewer": -tokens, "pair": (older, newer), "kind": kind}
            context |= _seen(request, chat, older, newer) if may else _hidden(chat, older, newer)
        return TemplateResponse(
            request,
            "admin/memory/conversationbrief/diff.html",
            context,
            status=404 if context["is_missing"] else 200,
        )


def _revisions(brief: ConversationBrief, versions: list[int]) -> QuerySet[SummaryRevision]:
    rows = SummaryRevision.objects.filter(chat=brief.chat, version__in=versions)
    return rows.select_related("created_by")


def _seen(request: HttpRequest, chat: Chat, older: SummaryRevision, newer: SummaryRevision) -> dict[str, Any]:
    """The difference, for users who may read it; records the view first."""
    if chat.title or text_of(older) or text_of(newer):
        record(request, "memory_conversationbrief", [(chat, chat.pk)])
    if older.forgotten_at or newer.forgotten_at:
        return {}  # compared with an emptied revision, all of the other would be new
    return {"difference": difference(newer, older)}


def _hidden(chat: Chat, older: SummaryRevision, newer: SummaryRevision) -> dict[str, Any]:
    texts = {f"version {row.version}": text_of(row) for row in (older, newer)}
    return {"withheld": withheld(chat, {name: text for name, text in texts.items() if text})}


def _version(request: HttpRequest, name: str, brief: ConversationBrief) -> int:
    """The requested version; by default the one in use for `to`, and the one before it for `from`."""
    given = request.GET.get(name, "")
    if given.isdecimal() and len(given) < 10:
        return int(given)
    return brief.head if name == "to" else max(1, brief.head - 1)
