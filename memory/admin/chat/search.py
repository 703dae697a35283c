"""Search in the messages of all chats, for staff who may read them; each message found is recorded as viewed.

The index is separate for each owner. So owners are searched one by one, most recently active first, until there is
enough to show or the time of a page is over; the page says how far it got, and links to the rest.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from conversations.admin.access import may_see
from conversations.admin.audit_log import SEARCH, record
from conversations.admin.html import heading, trail
from conversations.admin.readonly import LIST_LIMIT
from conversations.models import Chat
from memory.admin.chat.trace import pieces_of
from memory.recall.search import Hit, search

MOST_FOUND = 30
"""Messages on a page."""
OF_ONE_OWNER = 20
SECONDS = 0.2
"""After this time no further owner is searched."""
QUERY_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Found:
    """Hits, and how many of the owners were searched up to and including this page."""

    hits: list[Hit]
    asked: int
    owners: int

    @property
    def may_be_more(self) -> bool:
        return len(self.hits) >= OF_ONE_OWNER

    @property
    def is_cut(self) -> bool:
        return self.asked < self.owners


def search_urls(chats: admin.ModelAdmin[Any]) -> list[URLPattern]:
    """The URL of the page, for the admin of chats."""

    def view(request: HttpRequest) -> HttpResponse:
        return search_view(chats, request)

    return [path("search/", chats.admin_site.admin_view(view), name="conversations_chat_search")]


def search_view(chats: admin.ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """The page: `?q=` the words, `owner=` a username to search only theirs, `after=` how many owners to skip."""
    if not (chats.has_view_permission(request) and may_see(request)):
        raise PermissionDenied
    query = request.GET.get("q", "").replace("\0", "").strip()[:QUERY_CHARS]
    owner = request.GET.get("owner", "").replace("\0", "").strip()[:150]
    after = request.GET.get("after", "")
    first = int(after) if after.isdecimal() and len(after) < 6 else 0
    found = find(query, _owners(owner), first) if query else Found([], 0, 0)
    rows = {chat.pk: chat for chat in Chat.objects.select_related("owner").filter(pk__in=_chats(found.hits))}
    hits = [(hit, rows[hit.message.chat_id]) for hit in found.hits if hit.message.chat_id in rows]
    record(request, "conversations_message", [(chat, SEARCH) for _, chat in hits])
    context = {
        **chats.admin_site.each_context(request),
        "title": "Search in messages",
        "trail": trail(("Search in messages", "")),
        "opts": chats.opts,
        "query": query,
        "owner": owner,
        "is_first": first == 0,
        "found": found,
        "hits": [(hit.message, chat, heading(chat, may_see=True), pieces_of(hit)) for hit, chat in hits],
    }
    return TemplateResponse(request, "admin/conversations/search.html", context)


def find(query: str, owners: Sequence[User], first: int) -> Found:
    """The hits in the chats of `owners` from index `first` on; at least one owner is always searched."""
    hits: list[Hit] = []
    asked, began = first, time.monotonic()
    for owner in owners[first:]:
        hits += search(owner, query, OF_ONE_OWNER)
        asked += 1
        if len(hits) >= MOST_FOUND or time.monotonic() - began > SECONDS:
            break
    return Found(hits, asked, max(len(owners), asked))


def _owners(username: str) -> list[User]:
    """The owner of that name, or all owners among the most recently active chats, in that order."""
    if username:
        return list(User.objects.filter(username__iexact=username).only("pk"))
    recent = Chat.objects.order_by("-updated_at", "-pk").values_list("owner_id", flat=True)[:LIST_LIMIT]
    return [User(pk=owner_id) for owner_id in dict.fromkeys(recent)]


def _chats(hits: Sequence[Hit]) -> set[Any]:
    return {hit.message.chat_id for hit in hits}
