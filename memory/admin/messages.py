"""Messages: a list that searches their words in all chats, the page of one, deleting them; replies being written."""

import time
from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.db.models.functions import Left, Length
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.errors import ChatMemoryError
from conversations import message_changes
from conversations.admin import access
from conversations.admin.access import ContentAdmin
from conversations.admin.html import column, heading, link, moment, since
from conversations.models import ActiveReply, Chat, Message
from memory.models import ContextRecord
from memory.recall.search import MAX_QUERY_CHARS, Hit, search, search_chat
from memory.templatetags.remembering import as_json, as_text, marked

LONG_COLUMNS = ("content", "metadata", "terms")
"""Columns so long that lists leave them in the database."""
EXCERPT_CHARS = 160
HITS_OF_ONE_OWNER = 20
HITS = 50
"""The most hits of one chat; once so many are found in all, no further owner is searched."""
SECONDS = 0.2
"""After this time no further owner is searched: the index is separate for each."""
SEQ = column("message", lambda row: f"#{row.seq}")


def _prompt_link(message: Message) -> SafeString | str:
    record = ContextRecord.objects.filter(pk=message.pk).only("tokens", "budget").first()
    if record is None:
        return "–"
    text = f"{record.tokens:,} of {record.budget:,} tokens of memory"
    return link(text, "memory_contextrecord", "change", message.pk)


@admin.register(Message)
class MessageAdmin(ContentAdmin):
    list_display = ("title_link", SEQ, "excerpt", "role", "status", "token_count", "model", since("created_at"))
    list_display_links = (SEQ,)
    chat_ordering = ("chat", "seq")
    chat_filters = ("role", "status")
    content_columns = ("excerpt",)
    search_help_text = (
        "Search by id, chat id or owner; with permission to read content, also by title and by whole words of "
        "messages, in the most recently active owners' chats first. Every message shown here is recorded."
    )
    has_delete_permission = admin.ModelAdmin.has_delete_permission

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        cost = [access.COST] if access.sees_cost(request) else []
        message = [
            *("seq", "role", "status", column("characters", lambda row: row.length)),
            *("token_count", column("content", lambda row: as_text(row.content))),
        ]
        turn = ["reply_to", "superseded_by", column("prompt sent", _prompt_link), "line", "outline"]
        error = column("error", lambda row: as_json(row.error))
        usage = ("input_tokens", "cached_tokens", "output_tokens")
        model = ["model_variant", "model", "response_id", *usage, *cost, error]
        times = map(moment, ("created_at", "completed_at", "edited_at"))
        more = [*times, column("metadata", lambda row: as_json(row.metadata))]
        named = {None: message, "The turn": turn, "Model": model, "More": more}
        return [(name, {"fields": fields}) for name, fields in named.items()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        rows: QuerySet[Message] = super().get_queryset(request)
        rows = rows.defer(*LONG_COLUMNS)
        return rows.annotate(length=Length("content"), start=Left("content", EXCERPT_CHARS))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Message], search_term: str
    ) -> tuple[QuerySet[Message], bool]:
        """Also find messages by their words, if the viewer may read them; the list shows excerpts."""
        words = search_term.replace("\0", "").strip()[:MAX_QUERY_CHARS]
        if not words or access.uuid_in(words) or not access.may_see(request) or access.end_user_named(words):
            return super().get_search_results(request, queryset, search_term)
        if chat_id := access.uuid_in(request.GET.get(self.chat_parameter, "")):
            chat = Chat.objects.filter(pk=chat_id).first()
            hits = search_chat(chat, words, HITS) if chat else []
        else:
            hits, is_cut = _in_all_chats(words)
            if is_cut:
                text = "Only the most recently active owners' messages were searched."
                self.message_user(request, f"{text} Filter by a chat to search all of it.", messages.WARNING)
        request.hits = {hit.message.pk: hit for hit in hits}  # type: ignore[attr-defined]  # for `record_rows`
        found = Q(pk__in=[hit.message.pk for hit in hits])
        return queryset.filter(found if chat_id else found | self.of_chats_named(request, words)), False

    def record_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Record each chat whose texts the list shows, and put excerpts of hits in place of beginnings."""
        hits = getattr(request, "hits", {})
        for row in rows:
            row.hit = hits.get(row.pk)
        access.record(request, self.own_name, [(row.chat, access.SEARCH if row.hit else access.LIST) for row in rows])

    @admin.display(description="text")
    def excerpt(self, message: Any) -> SafeString | str:
        text = f"{message.start}{'…' if message.length > EXCERPT_CHARS else ''}"
        hit = getattr(message, "hit", None)
        shown = marked(hit.snippet, hit.matches) if hit else text
        return format_html('<span class="cm-excerpt" dir="auto">{}</span>', shown)

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Return the messages that will be emptied. A question whose answer is being written is protected."""
        rows, may = list(objs), access.may_see(request)
        busy = set(ActiveReply.objects.filter(user_message__in=rows).values_list("user_message_id", flat=True))
        if may:
            access.record_list(request, self.own_name, [row.chat for row in rows])
        named = {row.pk: f"Message {row.seq} of {heading(row.chat, may)}" for row in rows}
        kept = [f"{named[pk]}: its answer is being written" for pk in named if pk in busy]
        return list(named.values()), {"messages": len(rows)}, set(), kept

    def delete_model(self, request: HttpRequest, obj: Message) -> None:
        try:
            message_changes.forget_message(obj.chat_key, obj.pk)
        except ChatMemoryError as exc:  # a reply to it has begun just now
            self.message_user(request, f"Not deleted: message {obj.seq}. {exc.message}", messages.ERROR)


def _in_all_chats(words: str) -> tuple[list[Hit], bool]:
    """Hits in the chats of the most recently active owners, at least of one; and whether some were not searched."""
    recent = Chat.objects.order_by("-updated_at", "-pk").values_list("owner_id", flat=True)[: access.LIST_LIMIT]
    owners = list(dict.fromkeys(recent))
    hits: list[Hit] = []
    began = time.monotonic()
    for count, owner_id in enumerate(owners, start=1):
        hits += search(User(pk=owner_id), words, HITS_OF_ONE_OWNER)
        if len(hits) >= HITS or time.monotonic() - began > SECONDS:
            return hits, count < len(owners)
    return hits, False


@admin.register(ActiveReply)
class ActiveReplyAdmin(ContentAdmin):
    """Replies being written: which process writes them, their length so far, and when their lease expires."""

    LENGTH = column("characters so far", lambda row: row.length)
    PROCESS = column("written by", lambda row: row.lease_owner)
    list_display = (
        *("title_link", "message_id", LENGTH, since("started_at"), since("lease_expires_at", "lease until")),
        *("cancel_requested", PROCESS),
    )
    list_display_links = ("message_id",)
    fields = (
        *("message_id", "model_variant", "model", PROCESS, moment("lease_expires_at")),
        *("cancel_requested", moment("started_at"), LENGTH),
        column("text so far", lambda row: as_text(row.text)),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[ActiveReply]:
        rows: QuerySet[ActiveReply] = super().get_queryset(request)
        return rows.defer("text", "context").annotate(length=Length("text"))
