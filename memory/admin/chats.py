"""Adds what is remembered to the pages of what was said: memory knows conversations, not the other way round."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils.html import format_html
from django.utils.safestring import SafeString

from conversations.admin import ChatAdmin
from conversations.admin_content import Page
from conversations.admin_html import chat_rows, link, moment
from conversations.admin_messages import MessageAdmin
from conversations.models import Chat, Message
from memory.admin.actions import MemoryActions
from memory.admin.chat_page import brief_of, chat_page
from memory.admin.filters import PARAMETER, MemoryFilter
from memory.admin.health import health_of
from memory.admin.pins import unpin_urls
from memory.admin.previews import preview_urls
from memory.models import ContextRecord, SummaryRevision

admin.site.unregister(Chat)
admin.site.unregister(Message)


@admin.register(Chat)
class RememberedChatAdmin(MemoryActions, ChatAdmin):
    """A chat with its memory: its turns and what became of each, links to the rest, and the actions on it."""

    list_display = (
        *("short", "title", "owner", "health", "said", "memory", "unfolded", "policy"),
        moment("updated_at"),
    )
    list_display_links = ("short", "title")
    list_select_related = ("owner", "brief")
    list_defer = (
        *ChatAdmin.list_defer,
        *("brief__global_summary", "brief__state", "brief__rebuild", "brief__last_error", "brief__options"),
    )
    list_filter = (MemoryFilter,)
    lookups = (PARAMETER,)
    change_form_template = "admin/conversations/chat/change_form.html"

    def get_urls(self) -> list[URLPattern]:
        return [*preview_urls(self), *unpin_urls(self), *super().get_urls()]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        first, *others = super().get_fieldsets(request, obj)
        return [first, ("Memory", {"fields": ["brief_link", "revisions", "records"]}), *others]

    def page_for(self, request: HttpRequest, row: Chat, name: str) -> Page:
        return chat_page(request, row, name)

    @admin.display(description="messages")
    def said(self, chat: Chat) -> str:
        return f"{chat.last_seq:,}"

    @admin.display(description="memory")
    def memory(self, chat: Chat) -> SafeString | str:
        brief = brief_of(chat)
        if brief is None or not brief.head:
            return "none yet"
        return format_html("revision {}, {} tokens", brief.head, f"{brief.token_count:,}")

    @admin.display(description="not folded, tokens")
    def unfolded(self, chat: Chat) -> str:
        brief = brief_of(chat)
        return f"{brief.unfolded_tokens:,}" if brief else "0"

    @admin.display(description="state of it")
    def health(self, chat: Chat) -> SafeString:
        return health_of(brief_of(chat))

    @admin.display(description="brief")
    def brief_link(self, chat: Chat) -> SafeString | str:
        brief = brief_of(chat)
        if brief is None:
            return "–"
        text = f"{brief.token_count} tokens, version {brief.version}"
        return link(text, "memory_conversationbrief", "change", chat.pk)

    @admin.display(description="revisions")
    def revisions(self, chat: Chat) -> SafeString:
        count = SummaryRevision.objects.filter(chat=chat).count()
        return chat_rows(f"{count} revisions", "memory_summaryrevision", chat.pk)

    @admin.display(description="what models were sent")
    def records(self, chat: Chat) -> SafeString:
        return chat_rows("context records", "memory_contextrecord", chat.pk, path="reply__chat")


@admin.register(Message)
class ToldMessageAdmin(MessageAdmin):
    """A message with what the model was sent for it."""

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        first, *others = super().get_fieldsets(request, obj)
        return [first, ("Context", {"fields": ["context"]}), *others]

    @admin.display(description="what the model was sent")
    def context(self, message: Message) -> SafeString | str:
        record = ContextRecord.objects.filter(pk=message.pk).only("tokens", "budget").first()
        if record is None:
            return "–"
        text = format_html("{} of {} tokens of memory", record.tokens, record.budget)
        return link(text, "memory_contextrecord", "change", message.pk)
