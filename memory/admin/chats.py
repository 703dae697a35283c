"""The page of a chat: its turns, where memory has each of them, and beside them its memory and pins; deleting chats."""

from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.errors import NotFound
from chatmemory.templatetags.viewing import viewer_time
from conversations import chat_lifecycle
from conversations.admin.access import RecentFilter, may_see, record_list, refused, sees_cost
from conversations.admin.html import (
    Facts,
    Step,
    admin_url,
    as_json,
    as_text,
    column,
    heading,
    link,
    since,
    usd_of,
)
from conversations.models import Chat, Message, Role
from memory.admin.actions import MemoryActions
from memory.admin.briefs import kind_label
from memory.admin.filters import OWNER, MemoryFilter, OwnerFilter, PolicyFilter, TroubleFilter, health_of
from memory.admin.messages import marked
from memory.admin.timeline import PageAt, timeline
from memory.briefs import history_tokens, readable_parts
from memory.context.build import preview_last
from memory.explain.fact import WAYS
from memory.explain.reasons import budget_of, coverage_of
from memory.explain.trace import MAX_CHARS, folds_of, trace_fact
from memory.models import Pin, PinnedBy, SummaryRevision
from memory.pins.pins import unpin
from memory.policies import policy_name
from memory.work import work_of

SUMMED_MESSAGES = 2000
"""Number of newest messages whose tokens and cost a chat's page adds up: adding up all of a long chat is slow."""
MAY_UNPIN = "memory.delete_pin"
PINNED_BY = {
    PinnedBy.RULE: "found by rule",
    PinnedBy.SUMMARIZER: "found by the summarizer",
    PinnedBy.USER: "the chat's owner",
    PinnedBy.STAFF: "staff",
}


def _owner(chat: Chat) -> SafeString:
    """Link to the owner's chats."""
    return link(chat.owner, "conversations_chat", "changelist", **{OWNER: chat.owner_id})


def _memory(chat: Chat) -> SafeString:
    brief = getattr(chat, "brief", None)  # a chat without messages may have none
    text = "no summary"
    if brief is not None and brief.head:
        kept = "" if brief.kept_percent is None else f" · {brief.kept_percent}% kept"
        text = f"version {brief.head} · {brief.token_count:,} tokens{kept}"
    return format_html("{}<small>{}</small>", health_of(brief), text)


@admin.register(Chat)
class ChatAdmin(MemoryActions):
    """Read-only, except for deletion, for pins, and for the actions on memory."""

    chat_path = ""
    list_display: Any = (
        *("called", column("owner", _owner), column("policy", lambda row: policy_name(row.policy))),
        *(column("messages", lambda row: f"{row.last_seq:,}"), column("memory", _memory)),
        since("updated_at"),
    )
    list_display_links = None
    list_select_related: ClassVar[Any] = ("owner", "brief")
    list_defer = (
        *("instructions", "metadata", "options"),
        *("brief__global_summary", "brief__state", "brief__options"),
    )
    list_filter = (MemoryFilter, RecentFilter, PolicyFilter, TroubleFilter, OwnerFilter)
    ordering = ("-updated_at", "-pk")
    page_template = "admin/memory/chat.html"

    def steps(self, row: Chat) -> list[Step]:
        return []

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        trace, remove = view(self.trace_page), view(self.unpin_view)
        return [
            path("<uuid:chat_id>/trace/", trace, name="conversations_chat_trace"),
            path("<uuid:chat_id>/pins/<uuid:pin_id>/remove/", remove, name="conversations_chat_unpin"),
            *super().get_urls(),
        ]

    def page_context(self, request: HttpRequest, row: Chat) -> dict[str, Any]:
        brief, preview, shown = getattr(row, "brief", None), preview_last(row), PageAt.of(request.GET, row)
        folds = folds_of(brief)
        head = SummaryRevision.objects.filter(chat=row, version=brief.head if brief else 0)
        return {
            "title": heading(row),
            "facts": _facts(row, with_cost=sees_cost(request)),
            "given": {
                "Instructions": as_text(row.instructions),
                "Options": as_json(row.options),
                "Metadata": as_json(row.metadata),
            },
            "policy": policy_name(row.policy),
            "timeline": timeline(row, brief, folds, preview.plan, shown),
            "shown": shown,
            "is_newest": shown == PageAt(),
            "brief": brief if row.last_seq else None,
            "head": head.only("id", "version", "kind", "created_at", "is_wanting").first(),
            "work": work_of(brief),
            "made_by": policy_name(brief.policy) if brief and brief.policy != row.policy else "",
            "coverage": coverage_of(preview.plan, sum(fold.turns for fold in folds)),
            "budget": budget_of(preview.sections, preview.plan.budget),
            "said_tokens": history_tokens(brief),
            "remembered": readable_parts(brief) if brief else [],
            "pins": _pins(row),
            "may_unpin": request.user.has_perm(MAY_UNPIN),
            "may_delete": self.has_delete_permission(request, row),
            **self.buttons(request),
        }

    def trace_page(self, request: HttpRequest, chat_id: UUID) -> HttpResponse:
        """Show where the fact `?text=MFRB94` is and was."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if not may_see(request):
            return refused(request)
        chat = get_object_or_404(Chat, pk=chat_id)
        text = request.GET.get("text", "").replace("\0", "").strip()[:MAX_CHARS]
        found = trace_fact(chat, text) if text else None
        context: dict[str, Any] = {"title": "Trace a fact", "text": text, "trace": found}
        if found is not None:
            context |= {
                "said": [(hit.message, marked(hit)) for hit in found.said.hits],
                "spans": [(span, kind_label(span.lost) if span.lost else "") for span in found.held],
                "now": [WAYS[way] for way in found.now],
            }
        return self.page(request, chat, "admin/memory/trace.html", context, ("Trace a fact", ""))

    def unpin_view(self, request: HttpRequest, chat_id: UUID, pin_id: UUID) -> HttpResponse:
        """Remove a pin, and go back to the chat's page."""
        if not (self.has_view_permission(request) and request.user.has_perm(MAY_UNPIN)):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        chat = get_object_or_404(Chat, pk=chat_id)
        try:
            unpin(chat, pin_id)
        except NotFound:
            self.message_user(request, "This pin was already removed.", messages.WARNING)
        else:
            assert isinstance(request.user, User)  # the admin admits only users
            self.log_change(request, chat, f"Removed pin {pin_id}.")
            self.message_user(request, "The pin was removed. It will not be in any further prompt.")
        return redirect(admin_url("conversations_chat", "change", chat_id))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("conversations.delete_chat"))

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Return what will be deleted as counts: Django's default would load every message to list it."""
        chats, may = list(objs), may_see(request)
        if may:
            record_list(request, self.own_name, chats)
        counts = {"chats": len(chats), "messages": sum(chat.last_seq for chat in chats)}
        return [heading(chat, may) for chat in chats], counts, set(), []

    def delete_model(self, request: HttpRequest, obj: Chat) -> None:
        chat_lifecycle.delete_chat(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Chat]) -> None:
        for chat in queryset:
            chat_lifecycle.delete_chat(chat)


def _facts(chat: Chat, *, with_cost: bool) -> Facts:
    newest = Message.objects.filter(chat=chat, seq__gt=max(0, chat.last_seq - SUMMED_MESSAGES))
    summed = ("token_count", "input_tokens", "output_tokens", "cost_usd")
    sums = newest.aggregate(*map(Sum, summed), n=Count("pk"))
    replies = newest.filter(role=Role.ASSISTANT).order_by("-seq")
    model, variant = replies.values_list("model", "model_variant").first() or ("", "")
    which = f" in the newest {sums['n']:,} messages" if chat.last_seq > SUMMED_MESSAGES else ""
    return {
        "Chat": {
            "Title": f"{chat.title}{' (from the first message)' if chat.title_is_automatic else ''}",
            "Owner": chat.owner,
            "Created": viewer_time(chat.created_at),
            "Model": " · ".join(dict.fromkeys(filter(None, (model, variant)))) or "–",
            "Who viewed it": link(
                "audit log", "conversations_contentview", "changelist", chat_id__exact=chat.pk
            ),
            "Messages": link("list", "conversations_message", "changelist", chat__id__exact=chat.pk),
        },
        f"Usage{which}": {
            "Tokens of messages": f"{sums['token_count__sum'] or 0:,}",
            "Input tokens": f"{sums['input_tokens__sum'] or 0:,}",
            "Output tokens": f"{sums['output_tokens__sum'] or 0:,}",
            **({"Cost": usd_of(sums["cost_usd__sum"])} if with_cost else {}),
        },
    }


def _pins(chat: Chat) -> list[tuple[Pin, str]]:
    """The current pins, newest first, each with who pinned it."""
    rows = Pin.objects.filter(chat=chat, ended_at__isnull=True).select_related("pinned_by", "message")
    rows = rows.defer("message__content", "message__metadata", "message__terms", "message__outline")
    return [
        (pin, pin.pinned_by.username if pin.pinned_by else PINNED_BY[PinnedBy(pin.by)])
        for pin in rows.order_by("-seq", "-start", "-pk")
    ]
