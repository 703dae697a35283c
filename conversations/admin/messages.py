"""Staff pages of messages: to read and to delete them. The list of one chat's messages can be filtered."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest
from django.utils.safestring import SafeString

from chatmemory.errors import ChatMemoryError
from conversations import message_changes
from conversations.admin.access import OfChatAdmin, Page, may_see, sees_cost, without_fields
from conversations.admin.audit_log import record_list
from conversations.admin.html import (
    Step,
    admin_url,
    as_json,
    as_text,
    heading,
    message_link,
    moment,
    since,
    usd_of,
)
from conversations.models import ActiveReply, Message

LONG_COLUMNS = (
    *("content", "line", "outline", "metadata", "error"),
    *("chat__instructions", "chat__metadata", "chat__options"),
)
"""Long columns of a message and its chat, which pages that do not show them leave in the database."""


@admin.register(Message)
class MessageAdmin(OfChatAdmin):
    list_display = (
        *("called", "numbered", "role", "status", "token_count", "model"),
        since("created_at"),
    )
    list_select_related = ("chat",)
    list_display_links = ("numbered",)
    list_defer = LONG_COLUMNS
    chat_ordering = ("chat", "seq")
    chat_filters = ("role", "status")
    lookups = ("seq__gte", "seq__lte")
    content_columns = ()
    content_fields = ("text", "line", "outline", "error_json", "metadata_json")
    fieldsets = [
        (None, {"fields": ["chat_link", "seq", "role", "status", "length", "token_count", "text"]}),
        ("The turn", {"fields": ["question", "newer_answer", "line", "outline"]}),
        (
            "Model",
            {
                "fields": [
                    *("model_variant", "model", "response_id", "usage", "cost"),
                    *("error_code", "error_json"),
                ]
            },
        ),
        ("Besides", {"fields": [*map(moment, ("created_at", "completed_at", "edited_at")), "metadata_json"]}),
    ]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("conversations.delete_message"))

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Return the messages that will be emptied. A question whose answer is being written is protected."""
        rows = list(objs)
        busy = set(
            ActiveReply.objects.filter(user_message__in=rows).values_list("user_message_id", flat=True)
        )
        chats = {row.chat for row in rows}
        may = may_see(request)
        record_list(request, self.own_name, [chat for chat in chats if may and chat.title])
        named = [f"Message {row.seq} of {heading(row.chat, may)}" for row in rows]
        kept = [
            f"{name}: its answer is being written"
            for name, row in zip(named, rows, strict=True)
            if row.pk in busy
        ]
        return named, {"messages": len(rows)}, set(), kept

    def delete_model(self, request: HttpRequest, obj: Message) -> None:
        try:
            message_changes.forget_message(obj.chat_id, obj.pk)
        except ChatMemoryError as exc:  # a reply to it has begun just now
            self.message_user(request, f"Not forgotten: message {obj.seq}. {exc.message}", messages.ERROR)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Message]) -> None:
        for message in queryset.only("pk", "chat_id", "seq"):
            self.delete_model(request, message)

    def page(self, row: Message, name: str) -> Page:
        texts = {"content": row.content, "line": row.line, "outline": row.outline}
        head = {"title": f"Message {row.seq} of {name}", "subtitle": None}
        return Page({**texts, "error": row.error, "metadata": row.metadata}, head)

    def steps(self, row: Message) -> list[Step]:
        return [(f"Message {row.seq}", admin_url("conversations_message", "change", row.pk))]

    @admin.display(description="message")
    def numbered(self, message: Message) -> str:
        return f"#{message.seq}"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        rows: QuerySet[Message] = super().get_queryset(request)
        return rows.annotate(length=Length("content"))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Leave out the cost for those who may not see it."""
        hidden = () if sees_cost(request) else ("cost",)
        return without_fields(super().get_fieldsets(request, obj), hidden)

    @admin.display(description="characters")
    def length(self, message: Any) -> int:
        return int(message.length)

    @admin.display(description="content")
    def text(self, message: Message) -> SafeString:
        return as_text(message.content)

    @admin.display(description="answers")
    def question(self, message: Message) -> SafeString | str:
        return message_link(message.reply_to_id)

    @admin.display(description="superseded by")
    def newer_answer(self, message: Message) -> SafeString | str:
        return message_link(message.superseded_by_id)

    @admin.display(description="usage")
    def usage(self, message: Message) -> str:
        tokens = {name: value for name, value in (message.usage or {}).items() if name != "cost_usd"}
        return ", ".join(f"{name.replace('_', ' ')}: {value:,}" for name, value in tokens.items()) or "–"

    @admin.display(description="cost")
    def cost(self, message: Message) -> str:
        return usd_of(message.cost_usd)

    @admin.display(description="error")
    def error_code(self, message: Message) -> str:
        return code_of(message.error)

    @admin.display(description="what it says")
    def error_json(self, message: Message) -> SafeString | str:
        return as_json(message.error) if message.error else "–"

    @admin.display(description="metadata")
    def metadata_json(self, message: Message) -> SafeString:
        return as_json(message.metadata)


def code_of(error: Any) -> str:
    """The code of a stored error, which is one of ours and never content."""
    return str(error.get("code", "–")) if isinstance(error, dict) else "–"
