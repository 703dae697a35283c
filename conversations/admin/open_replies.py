"""The list of replies being written."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest
from django.utils.safestring import SafeString

from conversations.admin.access import CHAT_TEXTS, ContentAdmin
from conversations.admin.html import as_text, moment, since
from conversations.models import ActiveReply


@admin.register(ActiveReply)
class ActiveReplyAdmin(ContentAdmin):
    """Replies being written: which process writes them, their length so far, and when their lease expires."""

    list_display = (
        *("called", "message_id", "length", since("started_at")),
        *(since("lease_expires_at", "lease until"), "cancel_requested", "process"),
    )
    list_select_related = ("chat",)
    list_display_links = ("message_id",)
    list_defer = ("text", "context", "metadata", *CHAT_TEXTS)
    fields = (
        *("message_id", "chat_link", "model_variant", "model", "process", moment("lease_expires_at")),
        *("cancel_requested", moment("started_at"), "length", "text_so_far"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[ActiveReply]:
        rows: QuerySet[ActiveReply] = super().get_queryset(request).annotate(length=Length("text"))
        return rows

    @admin.display(description="written by")
    def process(self, reply: ActiveReply) -> str:
        return reply.owner

    @admin.display(description="characters so far")
    def length(self, reply: Any) -> int:
        return int(reply.length)

    @admin.display(description="text so far")
    def text_so_far(self, reply: ActiveReply) -> SafeString | str:
        return as_text(reply.text)
