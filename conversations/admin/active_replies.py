"""Staff pages for replies being written and for idempotency keys."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import short_id
from conversations.admin.access import OfChatAdmin, Page
from conversations.admin.html import Step, admin_url, as_text, message_link, moment, since
from conversations.models import ActiveReply, IdempotencyKey


@admin.register(ActiveReply)
class ActiveReplyAdmin(OfChatAdmin):
    """Replies being written: which process writes them, their length so far, and when their lease expires."""

    list_display = (
        "called",
        "reply",
        "length",
        since("started_at"),
        since("lease_expires_at", "lease until"),
        "cancel_requested",
        "owner_process",
    )
    list_select_related = ("chat",)
    list_display_links = ("reply",)
    list_defer = ("text", "context", "metadata", "chat__instructions", "chat__metadata", "chat__options")
    content_columns = ()
    content_fields = ("partial",)
    fieldsets = [
        (
            None,
            {
                "fields": [
                    *("message_id", "chat_link", "model_variant", "model", "owner_process"),
                    *(
                        moment("lease_expires_at"),
                        "cancel_requested",
                        moment("started_at"),
                        "length",
                        "partial",
                    ),
                ]
            },
        )
    ]

    def steps(self, row: ActiveReply) -> list[Step]:
        return [("Reply being written", admin_url("conversations_activereply", "change", row.pk))]

    def page(self, row: ActiveReply, name: str) -> Page:
        return Page({"text so far": row.text}, {"title": f"Reply being written in {name}", "subtitle": None})

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
    list_display = ("called", "key", "user", "reply", since("created_at"))
    list_display_links = ("key",)
    list_select_related = ("user", "chat")
    list_defer = ("chat__instructions", "chat__metadata", "chat__options")
    content_columns = ("key",)  # an id chosen by the client, so it may contain anything
    content_fields = ("key", "request_hash")
    fieldsets = [
        (None, {"fields": ["key", "user", "chat_link", "reply", "request_hash", moment("created_at")]})
    ]

    def steps(self, row: IdempotencyKey) -> list[Step]:
        return [(f"Idempotency key {row.pk}", admin_url("conversations_idempotencykey", "change", row.pk))]

    def page(self, row: IdempotencyKey, name: str) -> Page:
        head = {"title": f"Idempotency key of {name}", "subtitle": None}
        return Page({"key": row.key, "request hash": row.request_hash}, head)

    @admin.display(description="reply")
    def reply(self, row: IdempotencyKey) -> SafeString | str:
        return message_link(row.message_id)
