"""Editing a chat's memory by hand: the form, the page that shows what would change, and saving it.

The policy defines what can be edited and what is valid; `memory.revisions.edit` publishes the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from chatmemory.errors import ChatMemoryError
from chatmemory.text.tokens import count_tokens
from conversations.admin.access import may_see
from conversations.admin.audit_log import record
from conversations.admin.html import admin_url, chat_trail, heading
from conversations.models import Chat
from memory.admin.states import memory_steps
from memory.briefs import readable_parts
from memory.folding.estimate import estimate_for
from memory.policies.edit_form import BadEdit, clean
from memory.revisions.diff import difference
from memory.revisions.edit import Draft, StaleEdit, changed, draft, edit_by_hand

FIELD = "part-"
"""The prefix of a part's name in the form."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The submitted form."""

    texts: Mapping[str, str]
    on_version: int
    confirmed: bool
    pauses: bool

    @classmethod
    def of(cls, request: HttpRequest) -> Sent:
        texts = {
            name.removeprefix(FIELD): str(text)
            for name, text in request.POST.items()
            if name.startswith(FIELD)
        }
        return cls(
            texts,
            _number(request.POST.get("on_version")) or 0,
            "confirmed" in request.POST,
            bool(request.POST.get("pause")),
        )


class EditPage(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """Adds a page to briefs to edit them by hand, for users who may change and read them."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.edit_view)
        return [
            path("<uuid:chat_id>/edit/", view, name="memory_conversationbrief_edit"),
            path(
                "edit/count/",
                self.admin_site.admin_view(self.count_view),
                name="memory_conversationbrief_count",
            ),
            *super().get_urls(),
        ]

    def has_edit_permission(self, request: HttpRequest) -> bool:
        return may_see(request) and request.user.has_perm("memory.change_conversationbrief")

    def count_view(self, request: HttpRequest) -> HttpResponse:
        """Count the tokens of a text that is being written. Nothing is stored."""
        if not self.has_edit_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        return JsonResponse({"tokens": count_tokens(clean(request.POST.get("text", "")))})

    def edit_view(self, request: HttpRequest, chat_id: UUID) -> HttpResponse:
        """The form for the revision in use, or for another with `?from=`; then the changes to confirm; then save."""
        if not self.has_edit_permission(request):
            raise PermissionDenied
        chat = get_object_or_404(
            Chat.objects.select_related("owner", "brief"), pk=chat_id, brief__isnull=False
        )
        version = _number((request.POST if request.method == "POST" else request.GET).get("from"))
        try:
            begun = draft(chat, version)
        except ChatMemoryError as refused:
            self.message_user(request, refused.message, messages.ERROR)
            return redirect(admin_url("memory_conversationbrief", "change", chat.pk))
        record(request, "memory_conversationbrief", [(chat, chat.pk)])
        if request.method != "POST":
            return self._form(request, chat, begun)
        return self._sent(request, chat, begun, Sent.of(request))

    def _sent(self, request: HttpRequest, chat: Chat, begun: Draft, sent: Sent) -> HttpResponse:
        """Show what would change, or save it; show the form again with an error if it cannot be saved."""
        if "again" in request.POST:
            return self._form(request, chat, begun, sent)
        try:
            revision = changed(chat.brief, begun.base, sent.texts)
            if sent.on_version != begun.in_use:
                raise StaleEdit(
                    f"Nothing was saved. Version {begun.in_use} is current now; it was {sent.on_version} when you "
                    "began. Your text is below, next to the current one."
                )
            if sent.confirmed:
                return self._save(request, chat, begun, sent)
        except BadEdit as wrong:
            return self._form(request, chat, begun, sent, wrong=wrong)
        except StaleEdit as stale:
            return self._form(request, chat, begun, sent, stale=stale.message)
        except ChatMemoryError as refused:
            return self._form(request, chat, begun, sent, refused=refused.message)
        found = difference(revision, begun.base)
        if all(piece.kind == "same" for piece in found.pieces):
            return self._form(request, chat, begun, sent, refused="Nothing was changed.")
        context = self._context(request, chat, begun) | {
            "difference": found,
            "texts": sent.texts,
            "again": estimate_for(chat, "update", after_seq=begun.base.through_seq),
            "again_after": begun.base.through_seq,
        }
        return TemplateResponse(request, "admin/memory/confirm_edit.html", context)

    def _save(self, request: HttpRequest, chat: Chat, begun: Draft, sent: Sent) -> HttpResponse:
        assert isinstance(request.user, User)  # the admin admits only users
        base = begun.base.version
        brief = edit_by_hand(
            chat, sent.texts, request.user, on_version=sent.on_version, base=base, pauses=sent.pauses
        )
        self.log_change(request, brief, f"Edited by hand: version {brief.head}, from version {base}.")
        paused = " Updates are paused." if brief.paused_at else ""
        text = f"Saved as version {brief.head}, now in use.{paused}"
        self.message_user(request, text, messages.SUCCESS)
        return redirect(admin_url("memory_conversationbrief", "change", chat.pk))

    def _form(
        self,
        request: HttpRequest,
        chat: Chat,
        begun: Draft,
        sent: Sent | None = None,
        *,
        wrong: BadEdit | None = None,
        stale: str = "",
        refused: str = "",
    ) -> HttpResponse:
        entered = sent.texts if sent else {}
        fields = [
            {
                "part": part,
                "text": entered.get(part.name, part.text),
                "wrong": wrong.message if wrong is not None and wrong.part == part.name else "",
            }
            for part in begun.parts
        ]
        trouble = stale or refused or (wrong.message if wrong is not None and not wrong.part else "")
        context = self._context(request, chat, begun) | {
            "fields": fields,
            "trouble": trouble,
            "has_wrong": wrong is not None,
            "now": readable_parts(chat.brief) if stale else [],
        }
        status = 409 if stale else 400 if trouble or wrong else 200
        return TemplateResponse(request, "admin/memory/edit_by_hand.html", context, status=status)

    def _context(self, request: HttpRequest, chat: Chat, begun: Draft) -> dict[str, Any]:
        return {
            **self.admin_site.each_context(request),
            "title": f"Edit the memory of {heading(chat, may_see=True)}",
            "trail": chat_trail(chat, True, *memory_steps(chat.pk, ("Edit", ""))),
            "opts": self.opts,
            "media": self.media,
            "chat": chat,
            "brief": chat.brief,
            "draft": begun,
            "is_older": begun.base.version != begun.in_use,
            "field": FIELD,
        }


def _number(text: str | None) -> int | None:
    """Parse a version from a URL or a form; None if it is not a number."""
    return int(text) if text and text.isdecimal() and len(text) < 10 else None
