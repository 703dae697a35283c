"""Pausing and resuming the updates of a memory, and clearing the summary, for users who may change briefs."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from chatmemory.errors import ChatMemoryError
from conversations.admin.access import may_see
from conversations.admin.audit_log import record
from conversations.admin.html import admin_url, chat_trail, heading
from conversations.models import Chat
from memory.admin.states import memory_steps
from memory.models import ConversationBrief
from memory.revisions.edit import clear
from memory.revisions.updates import pause_updates, resume_updates

PAUSED = "Updates are paused: the summary stays as it is until you resume them."
RESUMED = "Updates are resumed."


class HoldPages(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """Adds the URLs of the buttons *Pause updates*, *Resume updates* and *Clear summary…* to the admin of briefs."""

    def get_urls(self) -> list[URLPattern]:
        views = {"pause": self.pause_view, "resume": self.resume_view, "clear": self.clear_view}
        return [
            *(
                path(
                    f"<uuid:chat_id>/{name}/",
                    self.admin_site.admin_view(view),
                    name=f"memory_conversationbrief_{name}",
                )
                for name, view in views.items()
            ),
            *super().get_urls(),
        ]

    def pause_view(self, request: HttpRequest, chat_id: UUID) -> HttpResponse:
        """Pause updates; POST only."""
        return self._done(request, chat_id, pause_updates, "Paused updates of its memory.", PAUSED)

    def resume_view(self, request: HttpRequest, chat_id: UUID) -> HttpResponse:
        """Resume updates; POST only."""
        return self._done(request, chat_id, resume_updates, "Resumed updates of its memory.", RESUMED)

    def clear_view(self, request: HttpRequest, chat_id: UUID) -> HttpResponse:
        """The confirmation page; a POST clears the summary."""
        chat = self._chat(request, chat_id)
        if request.method == "POST":
            return self._done(request, chat_id, clear, "Cleared its summary.", "The summary is empty.")
        brief = get_object_or_404(ConversationBrief, pk=chat_id)
        if may_see(request) and chat.title:
            record(request, "memory_conversationbrief", [(chat, chat.pk)])
        context = {
            **self.admin_site.each_context(request),
            "title": "Clear the summary?",
            "trail": chat_trail(chat, may_see(request), *memory_steps(chat.pk, ("Clear", ""))),
            "chat_name": heading(chat, may_see(request)),
            "opts": self.opts,
            "brief": brief,
            "media": self.media,
        }
        return TemplateResponse(request, "admin/memory/confirm_clear.html", context)

    def _chat(self, request: HttpRequest, chat_id: UUID) -> Chat:
        if not request.user.has_perm("memory.change_conversationbrief"):
            raise PermissionDenied
        return get_object_or_404(Chat, pk=chat_id)

    def _done(
        self,
        request: HttpRequest,
        chat_id: UUID,
        act: Callable[[Chat, User | None], ConversationBrief],
        logged: str,
        told: str,
    ) -> HttpResponse:
        """Do it, log it, and redirect to the brief if the user may see it."""
        chat = self._chat(request, chat_id)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        assert isinstance(request.user, User)  # the admin admits only users
        try:
            brief = act(chat, request.user)
        except ChatMemoryError as refused:
            self.message_user(request, refused.message, messages.ERROR)
        else:
            self.log_change(request, brief, logged)
            self.message_user(request, told, messages.SUCCESS)
        if not self.has_view_permission(request):
            return redirect("admin:index")
        return redirect(admin_url("memory_conversationbrief", "change", chat_id))
