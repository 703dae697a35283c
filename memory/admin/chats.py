"""Adds what is remembered to the pages of what was said: memory knows conversations, not the other way round."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import ObjectDoesNotExist
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from conversations.admin import ChatAdmin, MessageAdmin
from conversations.admin_html import chat_rows, link
from conversations.models import Chat, Message
from memory.admin.actions import MemoryActions
from memory.models import ContextRecord, ConversationBrief, SummaryRevision

admin.site.unregister(Chat)
admin.site.unregister(Message)


def brief_of(chat: Chat) -> ConversationBrief | None:
    """The chat's brief; a chat in which nothing was said may have none."""
    try:
        return chat.brief
    except ObjectDoesNotExist:
        return None


@admin.register(Chat)
class RememberedChatAdmin(MemoryActions, ChatAdmin):
    """A chat with its memory: links to it, and the actions on it."""

    list_display = (
        "short",
        "title",
        "owner",
        "policy",
        "last_seq",
        "revision",
        "unfolded",
        "is_due",
        "updated_at",
    )
    list_select_related = ("owner", "brief")
    list_defer = (*ChatAdmin.list_defer, "brief__global_summary", "brief__state", "brief__rebuild")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        first, *others = super().get_fieldsets(request, obj)
        return [first, ("Memory", {"fields": ["brief_link", "revisions", "records"]}), *others]

    @admin.display(description="memory")
    def revision(self, chat: Chat) -> str:
        brief = brief_of(chat)
        if brief is None or not brief.head:
            return "–"
        return f"revision {brief.head}" + (", degraded" if brief.degraded else "")

    @admin.display(description="unfolded tokens")
    def unfolded(self, chat: Chat) -> int:
        brief = brief_of(chat)
        return brief.unfolded_tokens if brief else 0

    @admin.display(description="due", boolean=True)
    def is_due(self, chat: Chat) -> bool:
        brief = brief_of(chat)
        return bool(brief and brief.due)

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
