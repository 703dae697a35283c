"""The pins of a chat, on its page: their texts, who pinned them, and buttons to remove them.

Their texts are content, shown only to users who may read it; removing one requires the permission to delete pins.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path

from chatmemory.errors import NotFound
from conversations.admin.html import admin_url
from conversations.models import Chat
from memory.models import Pin, PinnedBy
from memory.pins.manual import unpin

REMOVE = "memory.delete_pin"
"""The permission to remove a pin."""
_SHOWN = ("kind", "by", "pinned_by__username", "message__seq", "created_at", "chat")
_BY = {
    PinnedBy.RULE: "found by rule",
    PinnedBy.SUMMARIZER: "found by the summarizer",
    PinnedBy.USER: "the chat's owner",
    PinnedBy.STAFF: "staff",
}


def pin_rows(request: HttpRequest, chat: Chat, *, texts: bool) -> list[dict[str, Any]]:
    """The current pins, newest first, for the chat's page. Without `texts`, their texts are not even loaded."""
    rows = Pin.objects.filter(chat=chat, ended_at__isnull=True).select_related("pinned_by", "message")
    rows = rows.only(*_SHOWN, *(["text"] if texts else []))
    may = request.user.has_perm(REMOVE)
    return [
        {
            "text": pin.text if texts else "",
            "kind": pin.get_kind_display(),
            "by": pin.pinned_by.username if pin.pinned_by else _BY[PinnedBy(pin.by)],
            "at": pin.created_at,
            "message_url": admin_url("conversations_chat", "change", chat.pk, at=pin.message.seq)
            if pin.message
            else "",
            "message_seq": pin.message.seq if pin.message else None,
            "remove_url": admin_url("conversations_chat", "unpin", chat.pk, pin.pk) if may else "",
        }
        for pin in rows.order_by("-seq", "-start", "-pk")
    ]


def unpin_urls(chats: admin.ModelAdmin[Any]) -> list[URLPattern]:
    """The URL to which the page's buttons post, for the admin of chats."""

    def view(request: HttpRequest, chat_id: UUID, pin_id: UUID) -> HttpResponse:
        return unpin_view(chats, request, chat_id, pin_id)

    return [
        path(
            "<uuid:chat_id>/pins/<uuid:pin_id>/remove/",
            chats.admin_site.admin_view(view),
            name="conversations_chat_unpin",
        )
    ]


def unpin_view(
    chats: admin.ModelAdmin[Any], request: HttpRequest, chat_id: UUID, pin_id: UUID
) -> HttpResponse:
    """Remove a pin, and go back to the chat's page."""
    if not (chats.has_view_permission(request) and request.user.has_perm(REMOVE)):
        raise PermissionDenied
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    chat = get_object_or_404(Chat, pk=chat_id)
    try:
        unpin(chat, pin_id)
    except NotFound:
        chats.message_user(request, "This pin was already removed.", messages.WARNING)
    else:
        assert isinstance(request.user, User)  # the admin admits only users
        chats.log_change(request, chat, f"Removed pin {pin_id}.")
        chats.message_user(
            request, "The pin was removed. It will not be in any further prompt.", messages.SUCCESS
        )
    return redirect(admin_url("conversations_chat", "change", chat_id))
