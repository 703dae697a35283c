"""What was said, for staff: chats and messages to read, and to be deleted with all that stems from them.

What is remembered is added to these pages by `memory.admin`; this side does not know of it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import Length
from django.http import HttpRequest
from django.utils.safestring import SafeString

from chatmemory.errors import ChatMemoryError
from conversations import admin_sign_in, admin_users, forgetting, services
from conversations.admin_allowances import AllowanceAdmin
from conversations.admin_content import ContentAdmin, OfChatAdmin, Page, sees_cost
from conversations.admin_html import as_json, as_text, chat_rows, link, short_id
from conversations.admin_views import ContentViewAdmin
from conversations.models import ActiveReply, Chat, IdempotencyKey, Message

__all__ = [
    "ActiveReplyAdmin",
    "AllowanceAdmin",
    "ChatAdmin",
    "ContentViewAdmin",
    "IdempotencyKeyAdmin",
    "MessageAdmin",
    "admin_sign_in",
    "admin_users",
]


ADDED_UP = 2000
"""Newest messages whose tokens and cost are added up on the page of a chat: all of a long one would take too long."""


@admin.register(Chat)
class ChatAdmin(ContentAdmin):
    """Read-only but for deleting, which goes through the service."""

    chat_path = ""
    list_display: Any = ("short", "title", "owner", "policy", "last_seq", "updated_at")
    list_select_related: ClassVar[Any] = ("owner",)
    list_defer: ClassVar[tuple[str, ...]] = ("instructions", "metadata", "options")
    raw_id_fields = ("owner",)
    content_fields = ("title", "options_json", "instructions_text", "metadata_json")
    fieldsets: ClassVar[Any] = [
        (
            None,
            {
                "fields": [
                    *("title", "owner", "policy", "rows", "tokens", "cost", "created_at", "updated_at"),
                    "looks",
                ]
            },
        ),
        ("Given by the client", {"fields": ["options_json", "instructions_text", "metadata_json"]}),
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
        """What will go, in numbers: Django's own way would load every message to list it."""
        chats = list(objs)
        counts = {"chats": len(chats), "messages": sum(chat.last_seq for chat in chats)}
        return [f"Chat {chat.pk}" for chat in chats], counts, set(), []

    def delete_model(self, request: HttpRequest, obj: Chat) -> None:
        services.delete_chat(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Chat]) -> None:
        for chat in queryset:
            services.delete_chat(chat)

    @admin.display(description="see")
    def rows(self, chat: Chat) -> SafeString:
        return chat_rows(f"{chat.last_seq} messages", "conversations_message", chat.pk)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Without the cost for those who may not see it."""
        hidden = () if sees_cost(request) else ("cost",)
        return _without(super().get_fieldsets(request, obj), hidden)

    @admin.display(description="tokens")
    def tokens(self, chat: Chat) -> str:
        said = _newest(chat).aggregate(
            said=Sum("token_count"), sent=Sum("input_tokens"), got=Sum("output_tokens"), n=Count("pk")
        )
        which = "the newest " if chat.last_seq > ADDED_UP else ""
        return (
            f"{said['said'] or 0:,} said in {which}{said['n']:,} messages; "
            f"{said['sent'] or 0:,} sent to models, {said['got'] or 0:,} written by them"
        )

    @admin.display(description="cost")
    def cost(self, chat: Chat) -> str:
        cost = _newest(chat).aggregate(cost=Sum("cost_usd"))["cost"]
        which = f", of the newest {ADDED_UP:,} messages" if chat.last_seq > ADDED_UP else ""
        return "–" if cost is None else f"{cost:.6f} USD{which}"

    @admin.display(description="who has read it")
    def looks(self, chat: Chat) -> SafeString:
        return link("content views", "conversations_contentview", "changelist", chat_id__exact=chat.pk)

    @admin.display(description="options")
    def options_json(self, chat: Chat) -> SafeString:
        return as_json(chat.options)

    @admin.display(description="instructions")
    def instructions_text(self, chat: Chat) -> SafeString:
        return as_text(chat.instructions)

    @admin.display(description="metadata")
    def metadata_json(self, chat: Chat) -> SafeString:
        return as_json(chat.metadata)


@admin.register(Message)
class MessageAdmin(OfChatAdmin):
    list_display = (
        "short",
        "in_chat",
        "owner",
        "seq",
        "role",
        "status",
        "length",
        "token_count",
        "model",
        "created_at",
    )
    list_select_related = ("chat__owner",)
    list_defer = (
        "content",
        "line",
        "outline",
        "metadata",
        "error",
        "chat__instructions",
        "chat__metadata",
        "chat__options",
    )
    list_per_page = 50
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
                    *("model_variant", "model", "response_id", "usage", "cost_usd"),
                    *("error_code", "error_json"),
                ]
            },
        ),
        ("Besides", {"fields": ["created_at", "completed_at", "edited_at", "metadata_json"]}),
    ]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("conversations.delete_message"))

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """What will be emptied; an answer that is being written keeps its question."""
        rows = list(objs)
        busy = set(
            ActiveReply.objects.filter(user_message__in=rows).values_list("user_message_id", flat=True)
        )
        named = [f"Message {row.seq} of chat {row.chat_id}" for row in rows]
        kept = [
            f"{name}: its answer is being written"
            for name, row in zip(named, rows, strict=True)
            if row.pk in busy
        ]
        return named, {"messages": len(rows)}, set(), kept

    def delete_model(self, request: HttpRequest, obj: Message) -> None:
        try:
            forgetting.forget_message(obj.chat_id, obj.pk)
        except ChatMemoryError as exc:  # it was asked again in this very moment
            self.message_user(request, f"Not forgotten: message {obj.seq}. {exc.message}", messages.ERROR)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Message]) -> None:
        for message in queryset.only("pk", "chat_id", "seq"):
            self.delete_model(request, message)

    def page(self, row: Message, name: str) -> Page:
        texts = {"content": row.content, "line": row.line, "outline": row.outline}
        return Page({**texts, "error": row.error, "metadata": row.metadata})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        rows: QuerySet[Message] = super().get_queryset(request)
        return rows.annotate(length=Length("content"))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Without the cost for those who may not see it."""
        hidden = () if sees_cost(request) else ("cost_usd",)
        return _without(super().get_fieldsets(request, obj), hidden)

    @admin.display(description="characters")
    def length(self, message: Any) -> int:
        return int(message.length)

    @admin.display(description="content")
    def text(self, message: Message) -> SafeString:
        return as_text(message.content)

    @admin.display(description="answers")
    def question(self, message: Message) -> SafeString | str:
        return _message_link(message.reply_to_id)

    @admin.display(description="superseded by")
    def newer_answer(self, message: Message) -> SafeString | str:
        return _message_link(message.superseded_by_id)

    @admin.display(description="usage")
    def usage(self, message: Message) -> str:
        tokens = {name: value for name, value in (message.usage or {}).items() if name != "cost_usd"}
        return ", ".join(f"{name.replace('_', ' ')}: {value:,}" for name, value in tokens.items()) or "–"

    @admin.display(description="error")
    def error_code(self, message: Message) -> str:
        return code_of(message.error)

    @admin.display(description="what it says")
    def error_json(self, message: Message) -> SafeString | str:
        return as_json(message.error) if message.error else "–"

    @admin.display(description="metadata")
    def metadata_json(self, message: Message) -> SafeString:
        return as_json(message.metadata)


@admin.register(ActiveReply)
class ActiveReplyAdmin(OfChatAdmin):
    """Replies in the making: who writes them, how far they are, and until when nobody else may finish them."""

    list_display = (
        "reply",
        "in_chat",
        "owner_process",
        "length",
        "lease_expires_at",
        "cancel_requested",
        "started_at",
    )
    list_select_related = ("chat",)
    list_defer = ("text", "context", "metadata", "chat__instructions", "chat__metadata", "chat__options")
    content_columns = ()
    content_fields = ("partial",)
    fieldsets = [
        (
            None,
            {
                "fields": [
                    *("message_id", "chat_link", "model_variant", "model", "owner_process"),
                    *("lease_expires_at", "cancel_requested", "started_at", "length", "partial"),
                ]
            },
        )
    ]

    def page(self, row: ActiveReply, name: str) -> Page:
        return Page({"text so far": row.text})

    def get_queryset(self, request: HttpRequest) -> QuerySet[ActiveReply]:
        rows: QuerySet[ActiveReply] = super().get_queryset(request)
        return rows.annotate(length=Length("text"))

    @admin.display(description="reply")
    def reply(self, reply: ActiveReply) -> SafeString:
        return short_id(reply.message_id)

    @admin.display(description="written by")
    def owner_process(self, reply: ActiveReply) -> str:
        return reply.owner

    @admin.display(description="characters so far")
    def length(self, reply: Any) -> int:
        return int(reply.length)

    @admin.display(description="text so far")
    def partial(self, reply: ActiveReply) -> SafeString:
        return as_text(reply.text)


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(OfChatAdmin):
    list_display = ("key", "user", "in_chat", "reply", "created_at")
    list_select_related = ("user", "chat")
    list_defer = ("chat__instructions", "chat__metadata", "chat__options")
    content_columns = ("key",)  # an id, but the client's: it may be anything
    content_fields = ("key", "request_hash")
    fieldsets = [(None, {"fields": ["key", "user", "chat_link", "reply", "request_hash", "created_at"]})]

    def page(self, row: IdempotencyKey, name: str) -> Page:
        return Page({"key": row.key, "request hash": row.request_hash})

    @admin.display(description="reply")
    def reply(self, row: IdempotencyKey) -> SafeString | str:
        return _message_link(row.message_id)


def _newest(chat: Chat) -> QuerySet[Message]:
    return Message.objects.filter(chat=chat, seq__gt=max(0, chat.last_seq - ADDED_UP))


def _without(fieldsets: Any, hidden: tuple[str, ...]) -> list[tuple[Any, dict[str, Any]]]:
    return [
        (name, {**options, "fields": [one for one in options["fields"] if one not in hidden]})
        for name, options in fieldsets
    ]


def code_of(error: Any) -> str:
    """The code of a stored error: one of ours, whatever else it holds."""
    return str(error.get("code", "–")) if isinstance(error, dict) else "–"


def _message_link(message_id: Any) -> SafeString | str:
    return link(message_id, "conversations_message", "change", message_id) if message_id else "–"
