"""Who looked at what people said: the record, to be read by those who may, and changed by nobody."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import NoReverseMatch
from django.utils.safestring import SafeString

from conversations.admin.access import LIST, SEARCH
from conversations.admin.html import link, moment, short_id
from conversations.admin.readonly import FactAdmin, uuid_in
from conversations.models import ContentView


@admin.register(ContentView)
class ContentViewAdmin(FactAdmin):
    """Looks, newest first. The pages they were at are linked, also where the object is gone."""

    list_display = (moment("at"), "viewer_name", "page", "seen", "in_chat", "owner_id")
    fields = (moment("at"), "viewer_name", "viewer", "page", "seen", "in_chat", "owner_id")
    lookups = ("chat_id__exact",)
    search_help_text = "A chat's id, or a viewer's username."

    @admin.display(description="of what")
    def seen(self, look: ContentView) -> SafeString | str:
        if look.object_id in (LIST, SEARCH):
            return look.object_id
        try:
            return link(look.object_id, look.page, "change", look.object_id)
        except NoReverseMatch:  # a page that is no more
            return look.object_id

    @admin.display(description="chat")
    def in_chat(self, look: ContentView) -> SafeString:
        return link(short_id(look.chat_id), "conversations_chat", "change", look.chat_id)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ContentView], search_term: str
    ) -> tuple[QuerySet[ContentView], bool]:
        """By a chat's id where the term is an id, else by the viewer's whole username."""
        term = search_term.strip()
        if not term:
            return queryset, False
        chat_id = uuid_in(term)
        found = {"viewer__username__iexact": term} if chat_id is None else {"chat_id": chat_id}
        return queryset.filter(**found), False
