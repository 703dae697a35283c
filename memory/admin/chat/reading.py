"""A chat as the playground shows it, read-only for staff.

The admin serves it with its own session and permissions, as a single page: it has no form, calls no API and holds no
token. So nothing on it can write, and reading a user's chat does not need a way to act as its owner. Each view is
recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import get_object_or_404, render
from django.urls import URLPattern, path

from conversations.admin.access import may_see
from conversations.admin.audit_log import record
from conversations.admin.html import UNTITLED
from conversations.models import Chat, Message
from memory import services
from memory.briefs import readable_parts
from memory.explain.coverage import OUTSIDE_MEMORY
from memory.explain.reasons import name_of
from memory.models import ConversationBrief

MESSAGES = 60
"""Messages on a page."""
MOST_CHARS = 20_000
"""The most characters shown of a message: what the playground's Markdown renders."""
_COLUMNS = (
    "pk",
    "seq",
    "role",
    "status",
    "superseded_by_id",
    "model_variant",
    "created_at",
    "edited_at",
    "text",
)


@dataclass(frozen=True, slots=True)
class ReadPage:
    """Messages in order. `older` and `newer` are the seqs of the adjacent pages; None at that end of the chat."""

    rows: list[dict[str, Any]]
    older: int | None
    newer: int | None


def reading_urls(chats: admin.ModelAdmin[Any]) -> list[URLPattern]:
    """The URL of the page, for the admin of chats."""

    def view(request: HttpRequest, chat_id: UUID) -> HttpResponse:
        return reading_view(chats, request, chat_id)

    return [path("<uuid:chat_id>/read/", chats.admin_site.admin_view(view), name="conversations_chat_read")]


def reading_view(chats: admin.ModelAdmin[Any], request: HttpRequest, chat_id: UUID) -> HttpResponse:
    """The page: the newest messages, or those up to message `?upto=`."""
    if not (chats.has_view_permission(request) and may_see(request)):
        raise PermissionDenied
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    chat = get_object_or_404(Chat.objects.select_related("owner"), pk=chat_id)
    brief = ConversationBrief.objects.filter(chat=chat).first()
    preview = services.preview_last(chat)
    record(request, "conversations_chat", [(chat, chat.pk)])
    context = {
        "chat": chat,
        "name": chat.title or UNTITLED,
        "page": messages_of(chat, request.GET),
        "folded_through": brief.folded_through_seq if brief else 0,
        "context": preview,
        "sections": [
            (name_of(one.kind), one)
            for one in sorted(preview.sections, key=lambda one: one.kind in OUTSIDE_MEMORY)
            if one.tokens
        ],
        "head": brief.head if brief else 0,
        "remembered": readable_parts(brief) if brief else [],
    }
    return render(request, "admin/conversations/chat/read.html", context)


def messages_of(chat: Chat, asked: Mapping[str, str]) -> ReadPage:
    """A page of messages, with as much of their texts as is shown."""
    upto = asked.get("upto", "")
    last = min(int(upto), chat.last_seq) if upto.isdecimal() and len(upto) < 10 else chat.last_seq
    rows = Message.objects.filter(chat=chat, seq__lte=last, seq__gt=last - MESSAGES).order_by("seq")
    return ReadPage(
        list(rows.annotate(text=Left("content", MOST_CHARS)).values(*_COLUMNS)),
        last - MESSAGES if last > MESSAGES else None,
        min(last + MESSAGES, chat.last_seq) if last < chat.last_seq else None,
    )
