"""What is going on with a chat's memory, as JSON for the pages that show it while it goes on."""

from __future__ import annotations

from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils import timezone

from memory.models import ConversationBrief
from memory.underway import under_way


class ProgressPage(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """Gives briefs the address that pages ask for progress. No content is in it."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.progress_view)
        return [
            path("<uuid:chat_id>/progress/", view, name="memory_conversationbrief_progress"),
            *super().get_urls(),
        ]

    def progress_view(self, request: HttpRequest, chat_id: UUID) -> JsonResponse:
        """What is going on, for those who may see briefs."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        briefs = ConversationBrief.objects.defer("global_summary", "state", "options", "last_error")
        brief = get_object_or_404(briefs, pk=chat_id)
        return JsonResponse(under_way(brief, timezone.now()).to_json())  # the admin lets nobody keep it
