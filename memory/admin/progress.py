"""The progress of the current work on a chat's memory: a state, a sentence and numbers, as JSON for its pages.

It is computed from the brief and the time. It contains no text of the chat or of any error.
"""

from __future__ import annotations

from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path

from memory.models import ConversationBrief
from memory.work import work_of


class ProgressPage(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """Adds the URL that pages poll for progress to the admin of briefs. The response has no content of chats."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.progress_view)
        return [
            path("<uuid:chat_id>/progress/", view, name="memory_conversationbrief_progress"),
            *super().get_urls(),
        ]

    def progress_view(self, request: HttpRequest, chat_id: UUID) -> JsonResponse:
        """The current progress, for users who may see briefs."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        briefs = ConversationBrief.objects.defer("global_summary", "state", "options")
        brief = get_object_or_404(briefs, pk=chat_id)
        return JsonResponse(progress_json(brief))  # the admin marks it as not to be cached


SIGNS = {"good": "✓", "paused": "‖", "bad": "⚠", "busy": "…"}
"""The symbol shown beside the sentence, by kind."""


def progress_json(brief: ConversationBrief) -> dict[str, object]:
    """What a page expects. `of` is None while the amount of work is unknown."""
    work = work_of(brief)
    return {
        "kind": work.kind,
        "sign": SIGNS[work.kind],
        "sentence": work.sentence,
        "done": work.rebuild.through_seq if work.rebuild else 0,
        "of": work.rebuild.of_seq if work.rebuild else None,
        "head": brief.head,
        "is_over": work.is_over,
    }
