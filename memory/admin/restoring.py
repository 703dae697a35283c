"""The action *restore* for revisions: one of them becomes the memory in use again, after a confirmation."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse

from chatmemory.errors import ChatMemoryError
from conversations.admin_html import admin_url
from memory.foreseeing import foresee
from memory.models import ConversationBrief, SummaryRevision
from memory.restoring import restore

EXPLAINED = (
    "What it says becomes the memory in use, as a new revision, and what came after it is folded again from the "
    "original messages. A fold or rebuild under way is dropped. The memory keeps this revision's policy until the "
    "next rebuild."
)


class RestoreAction(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """Gives a list of revisions and their pages the action, to those who may change briefs."""

    actions: Any = ("restore",)

    def has_restore_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("memory.change_conversationbrief"))

    @admin.action(description="Restore…", permissions=["restore"])
    def restore(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        chosen = list(queryset.select_related("chat").defer("global_summary", "state")[:2])
        if len(chosen) != 1:
            self.message_user(request, "Choose one revision to restore.", messages.ERROR)
            return None
        if "confirmed" not in request.POST:
            return self._confirmation(request, chosen[0])
        return self._restore(request, chosen[0])

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        context |= {
            "may_restore": self.has_restore_permission(request) and kwargs["obj"].forgotten_at is None,
            "actions_url": reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"),
        }
        return super().render_change_form(request, context, *args, **kwargs)

    def _restore(self, request: HttpRequest, revision: SummaryRevision) -> HttpResponse | None:
        """Then shows the brief, to those who may see it."""
        assert isinstance(request.user, User)  # the admin lets nobody else in
        try:
            brief = restore(revision.chat, revision.version, request.user)
        except ChatMemoryError as refused:
            self.message_user(request, refused.message, messages.ERROR)
            return None
        self.log_change(request, revision, f"Restored as revision {brief.version}.")
        text = f"Revision {revision.version} was restored: it is now revision {brief.version}, and in use."
        self.message_user(request, text, messages.SUCCESS)
        if not self.admin_site.get_model_admin(ConversationBrief).has_view_permission(request):
            return None
        return redirect(admin_url("memory_conversationbrief", "change", revision.chat_id))

    def _confirmation(self, request: HttpRequest, revision: SummaryRevision) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": "Are you sure?",
            "opts": self.opts,
            "revision": revision,
            "explained": EXPLAINED,
            "again": foresee(revision.chat, "update", after_seq=revision.through_seq),
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "media": self.media,
        }
        return TemplateResponse(request, "admin/memory/confirm_restore.html", context)
