"""The admin actions *resummarize* and *rebuild*, for lists of rows whose key is a chat's id.

The work is done by `memory.folding.request`. For a single chat, the confirmation shows an estimate, and afterwards
the chat's own page shows the progress.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import ngettext

from conversations.admin.access import may_see, sees_cost
from conversations.admin.audit_log import record_list
from conversations.admin.html import chat_trail, heading, trail
from conversations.models import Chat
from memory.folding.estimate import estimate_for
from memory.folding.request import Mode, request_resummarize
from memory.models import ConversationBrief

CHATS_NAMED = 20
"""The most chats named in the confirmation; the others are only counted."""

EXPLAINED: dict[Mode, str] = {
    "update": "Merges all but the recent messages into the summary now. Paused updates resume.",
    "rebuild": (
        "Writes the summary again, starting from the first message. The current one is used until it's done. "
        "Manual edits are overwritten, and paused updates resume."
    ),
}


class MemoryActions(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """Adds both actions to a list and its pages, for users who may change briefs."""

    actions: Any = ("resummarize", "rebuild")
    change_form_template = "admin/memory/with_actions.html"

    def has_resummarize_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("memory.change_conversationbrief"))

    @admin.action(description="Update memory…", permissions=["resummarize"])
    def resummarize(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._confirmed(request, queryset, "update", "resummarize")

    @admin.action(description="Rebuild memory from the original messages…", permissions=["resummarize"])
    def rebuild(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._confirmed(request, queryset, "rebuild", "rebuild")

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = kwargs["obj"]
        briefs = ConversationBrief.objects.only("paused_at", "token_count")
        brief = row if isinstance(row, ConversationBrief) else briefs.filter(pk=row.pk).first()
        context |= {
            "held": brief,
            "may_resummarize": self.has_resummarize_permission(request),
            "actions_url": reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"),
        }
        return super().render_change_form(request, context, *args, **kwargs)

    def _confirmed(
        self, request: HttpRequest, queryset: QuerySet[Any], mode: Mode, action: str
    ) -> HttpResponse | None:
        if "confirmed" not in request.POST:
            return self._confirmation(request, queryset, mode, action)
        asked = [
            chat_id
            for chat_id in queryset.values_list("pk", flat=True).iterator(chunk_size=500)
            if self._request(request, chat_id, mode)
        ]
        text = ngettext("%d chat is being summarized", "%d chats are being summarized", len(asked)) % len(
            asked
        )
        only = len(asked) == 1
        tags = "cm-until-done" if only else ""  # the chat's own page removes the message at the end
        self.message_user(request, f"{text} in the background.", messages.SUCCESS, extra_tags=tags)
        if not only:
            return None
        return redirect(reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=asked))

    def _request(self, request: HttpRequest, chat_id: Any, mode: Mode) -> bool:
        """Request the work; False if the chat was deleted in the meantime."""
        chat = Chat.objects.filter(pk=chat_id).first()
        if chat is None:
            return False
        assert isinstance(request.user, User)  # the admin admits only users
        request_resummarize(chat, mode, user=request.user)
        self.log_change(request, chat, f"Requested: {mode} of its memory.")
        return True

    def _confirmation(
        self, request: HttpRequest, queryset: QuerySet[Any], mode: Mode, action: str
    ) -> HttpResponse:
        selected = request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)
        across = request.POST.get("select_across") == "1"
        named, may = _chats(queryset.values_list("pk", flat=True)[:CHATS_NAMED]), may_see(request)
        page = f"{self.opts.app_label}_{self.opts.model_name}"
        record_list(request, page, [chat for chat in named if may and chat.title])
        verb = "Rebuild" if mode == "rebuild" else "Update"
        way = [(f"{verb} memory", "")]
        context = {
            **self.admin_site.each_context(request),
            "title": f"{verb} memory?",
            "trail": chat_trail(named[0], may, *way) if len(named) == 1 else trail(*way),
            "opts": self.opts,
            "action": action,
            "mode": mode,
            "explained": EXPLAINED[mode],
            "count": queryset.count(),
            "named": [(chat, heading(chat, may)) for chat in named],
            "verb": verb,
            "estimate": estimate_for(named[0], mode) if len(named) == 1 else None,
            "sees_cost": sees_cost(request),
            "across": across,
            "selected": selected[:1] if across else selected,  # at least one, or the list refuses the action
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
            "media": self.media,
        }
        return TemplateResponse(request, "admin/memory/confirm_resummarize.html", context)


def _chats(chat_ids: Iterable[Any]) -> list[Chat]:
    """The chats that still exist, in this order."""
    found = Chat.objects.in_bulk(list(chat_ids))
    return list(found.values())


def progress_url(brief: ConversationBrief) -> str:
    """The URL that a page with `admin/memory/progress.html` polls."""
    return reverse("admin:memory_conversationbrief_progress", args=[brief.pk])
