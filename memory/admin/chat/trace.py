"""The trace of a fact in a chat: who said it, which version of the summary lost it, whether a prompt would have it.

For users who may see the chat and read its content; each view is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from conversations.admin.access import may_see
from conversations.admin.audit_log import record
from conversations.admin.html import admin_url, chat_trail
from conversations.models import Chat
from memory import services
from memory.explain.fact import WAYS, HeldSpan
from memory.explain.trace import Trace, TracedVersions
from memory.models import ConversationBrief, SummaryRevision
from memory.recall.search import Hit

MOST_CHARS = 500
"""The longest text to trace, in characters: a fact is short."""
LOST_BY = {
    "fold": "an update",
    "rebuild": "a rebuild",
    "restore": "a restore",
    "manual": "an edit by hand",
    "retract": "a step back, because a message was edited or deleted",
    "branch": "copied from the chat that this one branched from",
}
"""What each kind of version is called if it lost the fact."""


@dataclass(frozen=True, slots=True)
class ShownSpan:
    """Versions that have the fact, and what lost it, with a link to what that version changed."""

    span: HeldSpan
    lost: SummaryRevision | None
    lost_by: str
    difference_url: str


def trace_urls(chats: admin.ModelAdmin[Any]) -> list[URLPattern]:
    """The URL of the page, for the admin of chats."""

    def view(request: HttpRequest, chat_id: UUID) -> HttpResponse:
        return trace_view(chats, request, chat_id)

    return [path("<uuid:chat_id>/trace/", chats.admin_site.admin_view(view), name="conversations_chat_trace")]


def trace_view(chats: admin.ModelAdmin[Any], request: HttpRequest, chat_id: UUID) -> HttpResponse:
    """The page: `?text=MFRB94`."""
    if not (chats.has_view_permission(request) and may_see(request)):
        raise PermissionDenied
    chat = get_object_or_404(Chat, pk=chat_id)
    text = request.GET.get("text", "").strip()[:MOST_CHARS]
    found = services.trace_fact(chat, text) if text else None
    page = {
        **chats.admin_site.each_context(request),
        "title": "Trace a fact",
        "opts": chats.opts,
        "media": chats.media,
        "chat": chat,
        "trail": chat_trail(chat, True, ("Trace a fact", "")),
        "text": text,
        "trace": found,
        **({} if found is None else shown(chat, found, with_versions=_sees_versions(chats, request))),
    }
    record(request, "conversations_chat", [(chat, chat.pk)])
    return TemplateResponse(request, "admin/memory/trace.html", page)


def _sees_versions(chats: admin.ModelAdmin[Any], request: HttpRequest) -> bool:
    return chats.admin_site.get_model_admin(ConversationBrief).has_view_permission(request)


def shown(chat: Chat, found: Trace, *, with_versions: bool) -> dict[str, Any]:
    """A trace as the page's template expects it. `with_versions`: the user may see the pages of versions."""
    return {
        "said": [(hit.message, pieces_of(hit)) for hit in found.said.hits],
        "said_more": found.said.is_cut or len(found.said.seqs) > len(found.said.hits),
        "spans": [_shown_span(chat, span, found.versions, with_versions) for span in found.versions.held],
        "now": [WAYS[way] for way in found.now],
    }


def _shown_span(chat: Chat, span: HeldSpan, versions: TracedVersions, with_versions: bool) -> ShownSpan:
    lost = versions.losses.get(span.lost_in or 0)
    url = ""
    if lost is not None and with_versions:
        query = {"from": span.through_version, "to": lost.version}
        url = admin_url("memory_conversationbrief", "diff", chat.pk, **query)
    return ShownSpan(span, lost, LOST_BY[lost.kind] if lost else "", url)


def pieces_of(hit: Hit) -> list[tuple[str, bool]]:
    """The snippet of a hit, cut where matches begin and end; each piece with whether it is a match."""
    pieces, done = [], 0
    for start, end in hit.matches:
        pieces += [(hit.snippet[done:start], False), (hit.snippet[start:end], True)]
        done = end
    return [piece for piece in [*pieces, (hit.snippet[done:], False)] if piece[0]]
