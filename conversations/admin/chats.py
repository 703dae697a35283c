"""Staff pages of chats: to read them, and to delete them with everything derived from them."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Count, QuerySet, Sum
from django.http import HttpRequest
from django.utils.safestring import SafeString

from conversations import chat_lifecycle
from conversations.admin.access import ContentAdmin, Page, may_see, sees_cost, without_fields
from conversations.admin.active_replies import ActiveReplyAdmin, IdempotencyKeyAdmin
from conversations.admin.allowances import AllowanceAdmin
from conversations.admin.audit_log import ContentViewAdmin, record_list
from conversations.admin.html import as_json, as_text, chat_rows, heading, link, moment, since, usd_of
from conversations.admin.messages import MessageAdmin
from conversations.models import Chat, Message

__all__ = [
    "ActiveReplyAdmin",
    "AllowanceAdmin",
    "ChatAdmin",
    "ContentViewAdmin",
    "IdempotencyKeyAdmin",
    "MessageAdmin",
]


SUMMED_MESSAGES = 2000
"""Number of newest messages whose tokens and cost a chat's page adds up: adding up all of a long chat is slow."""


@admin.register(Chat)
class ChatAdmin(ContentAdmin):
    """Read-only, except for deletion, which goes through `lifecycle`."""

    chat_path = ""
    list_display: Any = ("called", "owner", "policy", "last_seq", since("updated_at"))
    list_display_links = None
    list_select_related: ClassVar[Any] = ("owner",)
    list_defer: ClassVar[tuple[str, ...]] = ("instructions", "metadata", "options")
    date_hierarchy = "updated_at"
    raw_id_fields = ("owner",)
    content_fields = ("title", "options_json", "instructions_text", "metadata_json")
    fieldsets: ClassVar[Any] = [
        (
            None,
            {
                "fields": [
                    *("title", "title_is_automatic", "owner", "policy", "rows", "tokens", "cost"),
                    *(moment("created_at"), moment("updated_at"), "looks"),
                ]
            },
        ),
        ("Set by the client", {"fields": ["options_json", "instructions_text", "metadata_json"]}),
    ]

    def chat_of(self, row: Chat) -> Chat:
        return row

    def page(self, row: Chat, name: str) -> Page:
        given = {"options": row.options, "instructions": row.instructions, "metadata": row.metadata}
        return Page({"title": row.title, **given})

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("conversations.delete_chat"))

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Return what will be deleted as counts: Django's default would load every message to list it."""
        chats = list(objs)
        counts = {"chats": len(chats), "messages": sum(chat.last_seq for chat in chats)}
        may = may_see(request)
        record_list(request, self.own_name, [chat for chat in chats if may and chat.title])
        return [heading(chat, may) for chat in chats], counts, set(), []

    def delete_model(self, request: HttpRequest, obj: Chat) -> None:
        chat_lifecycle.delete_chat(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Chat]) -> None:
        for chat in queryset:
            chat_lifecycle.delete_chat(chat)

    @admin.display(description="see")
    def rows(self, chat: Chat) -> SafeString:
        return chat_rows(f"{chat.last_seq} messages", "conversations_message", chat.pk)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Leave out the cost for those who may not see it."""
        hidden = () if sees_cost(request) else ("cost",)
        return without_fields(super().get_fieldsets(request, obj), hidden)

    @admin.display(description="tokens")
    def tokens(self, chat: Chat) -> str:
        said = _newest(chat).aggregate(
            said=Sum("token_count"), sent=Sum("input_tokens"), got=Sum("output_tokens"), n=Count("pk")
        )
        which = "the newest " if chat.last_seq > SUMMED_MESSAGES else ""
        return (
            f"{said['said'] or 0:,} said in {which}{said['n']:,} messages; "
            f"{said['sent'] or 0:,} sent to models, {said['got'] or 0:,} written by them"
        )

    @admin.display(description="cost")
    def cost(self, chat: Chat) -> str:
        which = f", of the newest {SUMMED_MESSAGES:,} messages" if chat.last_seq > SUMMED_MESSAGES else ""
        return f"{usd_of(cost_of(chat))}{which}"

    @admin.display(description="who viewed it")
    def looks(self, chat: Chat) -> SafeString:
        return link("audit log", "conversations_contentview", "changelist", chat_id__exact=chat.pk)

    @admin.display(description="options")
    def options_json(self, chat: Chat) -> SafeString:
        return as_json(chat.options)

    @admin.display(description="instructions")
    def instructions_text(self, chat: Chat) -> SafeString:
        return as_text(chat.instructions)

    @admin.display(description="metadata")
    def metadata_json(self, chat: Chat) -> SafeString:
        return as_json(chat.metadata)


def cost_of(chat: Chat) -> Any:
    """Return the cost of the chat's newest messages in USD, or None if it is not known."""
    return _newest(chat).aggregate(cost=Sum("cost_usd"))["cost"]


def _newest(chat: Chat) -> QuerySet[Message]:
    return Message.objects.filter(chat=chat, seq__gt=max(0, chat.last_seq - SUMMED_MESSAGES))
