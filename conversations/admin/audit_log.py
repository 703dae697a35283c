"""The audit log: which staff member viewed which content. Each view is recorded, and nobody can change the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.urls import NoReverseMatch
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import short_id
from conversations.admin.html import link, moment, since
from conversations.admin.readonly import ReadOnlyAdmin, RecentFilter, uuid_in
from conversations.models import Chat, ContentView

LIST, SEARCH = "list", "search"
"""Object ids of views that were not of one object's page: a list that shows texts; a search that matched texts."""

PAGES = {
    "conversations_chat": "a chat",
    "conversations_message": "a message",
    "conversations_activereply": "a reply being written",
    "conversations_idempotencykey": "an idempotency key",
    "memory_conversationbrief": "the memory of a chat",
    "memory_summaryrevision": "a version of a summary",
    "memory_contextrecord": "a prompt",
}
"""What was viewed, by the name of the page that showed it."""
WHERE = {LIST: ("1 row of a list", "{} rows of a list"), SEARCH: ("1 hit of a search", "{} hits of a search")}


def record(request: HttpRequest, page: str, looks: Iterable[tuple[Chat, Any]]) -> None:
    """Record that content was seen on `page`. Each of `looks` is a chat and the id of an object, `LIST` or `SEARCH`."""
    seen = Counter((chat.owner_id, chat.pk, object_id) for chat, object_id in looks)
    _add(
        request,
        page,
        [
            {"owner_id": owner_id, "chat_id": chat_id, "object_id": object_id, "count": count}
            for (owner_id, chat_id, object_id), count in seen.items()
        ],
    )


def record_list(request: HttpRequest, page: str, chats: Iterable[Chat], object_id: str = LIST) -> None:
    """Record once that a list on `page` showed titles of `chats`, one for each of its rows.

    The record names the chat and the owner if there is only one.
    """
    rows = list(chats)
    if not rows:
        return
    owners, ids = {chat.owner_id for chat in rows}, {chat.pk for chat in rows}
    one = {
        "owner_id": owners.pop() if len(owners) == 1 else None,
        "chat_id": ids.pop() if len(ids) == 1 else None,
    }
    _add(request, page, [{**one, "object_id": object_id, "count": len(rows)}])


def _add(request: HttpRequest, page: str, rows: list[dict[str, Any]]) -> None:
    viewer = request.user
    assert isinstance(viewer, User)  # the admin admits nobody else
    ContentView.objects.bulk_create(
        ContentView(viewer=viewer, viewer_name=viewer.username, page=page, **row) for row in rows
    )


class ViewedFilter(RecentFilter):
    title = "when"
    parameter_name = "viewed"
    column = "at"


@admin.register(ContentView)
class ContentViewAdmin(ReadOnlyAdmin):
    """Views, newest first. Each links to its page, even if the object is gone."""

    list_display = (since("at", "when"), "who", "what", "seen", "in_chat", "owned_by")
    fields = (moment("at"), "who", "viewer", "what", "seen", "in_chat", "owned_by")
    list_filter = (ViewedFilter,)
    lookups = (ViewedFilter.parameter_name, "chat_id__exact")
    search_help_text = "Search by chat id or viewer."

    def get_queryset(self, request: HttpRequest) -> QuerySet[ContentView]:
        owner = User.objects.filter(pk=OuterRef("owner_id")).values("username")
        rows: QuerySet[ContentView] = super().get_queryset(request).annotate(owner_name=Subquery(owner))
        return rows

    @admin.display(description="staff")
    def who(self, look: ContentView) -> str:
        return look.viewer_name

    @admin.display(description="read")
    def what(self, look: ContentView) -> str:
        """The kind of page in words, or its name if the page no longer exists."""
        return PAGES.get(look.page, look.page)

    @admin.display(description="owner")
    def owned_by(self, look: Any) -> str:
        """The owner's name, or the id of an owner who was deleted."""
        if look.owner_id is None:
            return "several"
        return look.owner_name or f"user {look.owner_id}, deleted"

    @admin.display(description="which")
    def seen(self, look: ContentView) -> SafeString | str:
        if look.object_id in WHERE:
            one, many = WHERE[look.object_id]
            return one if look.count == 1 else many.format(look.count)
        try:
            return link(short_id(look.object_id), look.page, "change", look.object_id)
        except NoReverseMatch:  # the page no longer exists
            return look.object_id

    @admin.display(description="chat")
    def in_chat(self, look: ContentView) -> SafeString | str:
        if look.chat_id is None:
            return "several"
        return link(short_id(look.chat_id), "conversations_chat", "change", look.chat_id)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ContentView], search_term: str
    ) -> tuple[QuerySet[ContentView], bool]:
        """Search by chat id if the term is an id, else by the viewer's whole username."""
        term = search_term.strip()
        if not term:
            return queryset, False
        chat_id = uuid_in(term)
        found = {"viewer__username__iexact": term} if chat_id is None else {"chat_id": chat_id}
        return queryset.filter(**found), False
