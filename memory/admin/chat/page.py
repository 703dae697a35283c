"""The admin page of one chat: its turns, where memory has each of them, and beside them its memory.

This package adds memory to the pages of `conversations.admin`, not the reverse. Users who may not read content see
counts, marks and lengths; for them no text is loaded at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils.html import format_html
from django.utils.safestring import SafeString

from conversations.admin.access import Page, may_see, sees_cost
from conversations.admin.chats import ChatAdmin, cost_of
from conversations.admin.html import admin_url, chat_rows, link, since, usd_of
from conversations.admin.messages import MessageAdmin
from conversations.models import Chat, Message, Role
from memory import services
from memory.admin.actions import MemoryActions, progress_url
from memory.admin.chat.pins import pin_rows, unpin_urls
from memory.admin.chat.prompts import preview_urls
from memory.admin.chat.reading import reading_urls
from memory.admin.chat.search import search_urls
from memory.admin.chat.timeline import TimelineRequest, timeline
from memory.admin.chat.trace import pieces_of, trace_urls
from memory.admin.filters import CHAT_FILTERS, OWNER
from memory.admin.states import PARAMETER, MemoryFilter, brief_of, health_of
from memory.briefs import readable_parts, text_of
from memory.context.assemble import Context
from memory.counters import said_tokens
from memory.explain.coverage import budget_of, coverage_of
from memory.explain.fact import TracedFact
from memory.explain.lineage import folded_turns, versions_of
from memory.explain.timeline import Mark, Place, TurnPlaces
from memory.models import ContextRecord, ConversationBrief, SummaryRevision
from memory.policies import POLICIES, policy_name
from memory.policies.options import default_options, effective_options
from memory.recall.query import read_question
from memory.recall.search import search_chat
from memory.work import MemoryWork, work_of

admin.site.unregister(Chat)
admin.site.unregister(Message)


@admin.register(Chat)
class RememberedChatAdmin(MemoryActions, ChatAdmin):
    """A chat with its memory: its turns and where each is, links to related pages, and the actions on it."""

    list_display = (
        *("called", "owned_by", "policy_label", "said", "memory", "unfolded"),
        since("updated_at"),
    )
    list_select_related = ("owner", "brief")
    list_defer = (
        *ChatAdmin.list_defer,
        *("brief__global_summary", "brief__state", "brief__options"),
    )
    list_filter = (MemoryFilter, *CHAT_FILTERS)
    lookups = (PARAMETER, *(one.parameter_name for one in CHAT_FILTERS))
    ordering = ("-updated_at", "-pk")
    change_form_template = "admin/conversations/chat/change_form.html"

    def get_urls(self) -> list[URLPattern]:
        return [
            *(*preview_urls(self), *trace_urls(self), *unpin_urls(self)),
            *(*reading_urls(self), *search_urls(self)),
            *super().get_urls(),
        ]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        first, *others = super().get_fieldsets(request, obj)
        return [first, ("Memory", {"fields": ["brief_link", "revisions", "records"]}), *others]

    def page_for(self, request: HttpRequest, row: Chat, name: str) -> Page:
        return chat_page(request, row, name)

    @admin.display(description="owner")
    def owned_by(self, chat: Chat) -> SafeString:
        """Link to the owner's chats."""
        return link(chat.owner, "conversations_chat", "changelist", **{OWNER: chat.owner_id})

    @admin.display(description="policy")
    def policy_label(self, chat: Chat) -> str:
        return policy_name(chat.policy)

    @admin.display(description="messages")
    def said(self, chat: Chat) -> str:
        return f"{chat.last_seq:,}"

    @admin.display(description="memory")
    def memory(self, chat: Chat) -> SafeString | str:
        brief = brief_of(chat)
        if brief is None or not brief.head:
            return format_html("{}<small>no summary</small>", health_of(brief))
        told = f"version {brief.head} · {brief.token_count:,} tokens"
        told += "" if brief.kept_percent is None else f" · {brief.kept_percent}% kept"
        return format_html("{}<small>{}</small>", health_of(brief), told)

    @admin.display(description="unsummarized tokens")
    def unfolded(self, chat: Chat) -> str:
        brief = brief_of(chat)
        return f"{brief.unfolded_tokens:,}" if brief else "0"

    @admin.display(description="memory")
    def brief_link(self, chat: Chat) -> SafeString | str:
        brief = brief_of(chat)
        if brief is None:
            return "–"
        text = f"{brief.token_count} tokens, version {brief.version}"
        return link(text, "memory_conversationbrief", "change", chat.pk)

    @admin.display(description="versions")
    def revisions(self, chat: Chat) -> SafeString:
        count = SummaryRevision.objects.filter(chat=chat).count()
        return chat_rows(f"{count} versions", "memory_summaryrevision", chat.pk)

    @admin.display(description="prompts sent")
    def records(self, chat: Chat) -> SafeString:
        return chat_rows("prompts sent", "memory_contextrecord", chat.pk, path="reply__chat")


@admin.register(Message)
class MessageContextAdmin(MessageAdmin):
    """A message with a link to the prompt that was sent for it."""

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


MOST_FOUND = 20
"""The most messages that a search shows."""
QUERY_CHARS = 2000
"""The longest search query, in characters: more would not find more."""
_MAX_SEQ = 2**31 - 2
_PAGES = ("before", "after", "at")


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message that a search found. `pieces` are its excerpt, each with whether it is a match.

    `is_lost`: the message was folded, and the summary in use does not contain the query.
    """

    seq: int
    role: str
    mark: Mark
    pieces: list[tuple[str, bool]]
    is_lost: bool


def chat_page(request: HttpRequest, chat: Chat, name: str) -> Page:
    """The page of `chat`, limited to what the user may see, with the requested part of its timeline."""
    may, brief, preview = may_see(request), brief_of(chat), services.preview_last(chat)
    wanted, versions = wanted_in(request.GET, chat), versions_of(brief)
    shown = timeline(chat, brief, preview.plan, versions, wanted, texts=may)
    query = request.GET.get("q", "").replace("\0", "").strip()[:QUERY_CHARS] if may else ""
    found = _found(chat, brief, preview, query) if query else []
    pins = pin_rows(request, chat, texts=may)
    context = {
        "title": name,
        "line": _line(request, chat),
        "may_edit_memory": bool(brief and brief.head)
        and may
        and request.user.has_perm("memory.change_conversationbrief"),
        "subtitle": None,
        "chat": chat,
        "timeline": shown,
        "pins": pins,
        "wanted": wanted,
        "is_newest": wanted == TimelineRequest(),
        "may_preview": may,
        "coverage": coverage_of(preview.plan, folded_turns(brief, versions)),
        **panel(chat, brief, preview),
        "progress_url": _progress_url(request, chat, brief),
    }
    content = {
        "query": query,
        "found": found,
        "most_found": MOST_FOUND,
        "remembered": readable_parts(brief) if brief else [],
        "error_said": (brief.last_error or {}).get("message", "")
        if brief and work_of(brief).attempts
        else "",
    }
    texts = {
        "title": chat.title,
        "options": chat.options,
        "instructions": chat.instructions,
        "metadata": chat.metadata,
        "messages": shown.texts,
        "memory": text_of(brief) if brief else "",
        "pins": "\n\n".join(pin["text"] for pin in pins),
    }
    return Page(texts, context, content)


def _line(request: HttpRequest, chat: Chat) -> dict[str, Any]:
    """The line below the title of a chat."""
    newest = Message.objects.filter(chat=chat, role=Role.ASSISTANT).order_by("-seq")
    variant, model = newest.values_list("model_variant", "model").first() or ("", "")
    cost = cost_of(chat) if sees_cost(request) else None
    return {
        "owner_url": admin_url("auth_user", "change", chat.owner_id)
        if request.user.has_perm("auth.view_user")
        else "",
        "policy": policy_name(chat.policy),
        "model": " · ".join(dict.fromkeys(filter(None, (model, variant)))),
        "cost": usd_of(cost) if cost is not None else "",
    }


def wanted_in(asked: Mapping[str, str], chat: Chat) -> TimelineRequest:
    """The page of the timeline that a query string requests; the newest if it requests none."""
    for name in _PAGES:
        number = asked.get(name, "").strip()
        if number.isdecimal() and len(number) < 11:
            return TimelineRequest(**{name: _within(name, min(int(number), _MAX_SEQ), chat)})
    return TimelineRequest()


def _within(name: str, seq: int, chat: Chat) -> int:
    """`seq`, or the nearest one that the chat has."""
    return min(max(1, seq), max(1, chat.last_seq)) if name == "at" else seq


def panel(chat: Chat, brief: ConversationBrief | None, preview: Context) -> dict[str, Any]:
    """The memory panel beside the timeline, without anything that people wrote."""
    sections = [(section.kind, section.tokens) for section in preview.sections]
    work = work_of(brief)
    return {
        "brief": brief if brief is not None and chat.last_seq else None,
        "head": _head(brief),
        "budget": budget_of(sections, preview.budget),
        "said_tokens": said_tokens(brief),
        "numbers": numbers_of(chat),
        "state_of_it": _states(chat, brief, work) if brief else [],
        "work": work,
    }


def numbers_of(chat: Chat) -> list[tuple[str, object, object]]:
    """The numbers among the options that the chat has set: name, value, and the default of other chats."""
    policy = POLICIES.get(chat.policy)
    if policy is None:
        return []
    others = default_options(policy, settings.MEMORY_LIMITS)
    return [
        (name, value, others[name])
        for name, value in sorted(effective_options(policy, chat.options).items())
        if name != "focus"  # somebody wrote it
    ]


def _progress_url(request: HttpRequest, chat: Chat, brief: ConversationBrief | None) -> str:
    """The URL that the page polls for progress; "" if there is no memory, or if the user may not see it."""
    if brief is None or not chat.last_seq or not request.user.has_perm("memory.view_conversationbrief"):
        return ""
    return progress_url(brief)


def _head(brief: ConversationBrief | None) -> SummaryRevision | None:
    """The revision in use, without its texts."""
    if brief is None or not brief.head:
        return None
    rows = SummaryRevision.objects.filter(chat_id=brief.chat_id, version=brief.head)
    return rows.only("id", "version", "kind", "created_at", "tokens_after", "degraded", "is_wanting").first()


def _states(chat: Chat, brief: ConversationBrief, work: MemoryWork) -> list[tuple[str, str]]:
    """What is happening to the memory, as (kind, sentence) pairs; the kind decides the style."""
    said: list[tuple[str, str]] = [(work.kind, work.sentence)]
    if brief.policy != chat.policy:
        made, now = policy_name(brief.policy), policy_name(chat.policy)
        said.append(("busy", f"Made by {made}; this chat now uses {now}."))
    return said


def _found(chat: Chat, brief: ConversationBrief | None, preview: Context, query: str) -> list[SearchHit]:
    standing = TurnPlaces(preview.plan, brief.folded_through_seq if brief else 0)
    fact = TracedFact.of(read_question(query, chat.owner_id))
    has_it = brief is not None and fact.is_in(text_of(brief))
    found = []
    for hit in search_chat(chat, query, MOST_FOUND):
        mark = standing.at(hit.message.seq)
        is_lost = mark.place == Place.FOLDED and not has_it
        found.append(SearchHit(hit.message.seq, hit.message.role, mark, pieces_of(hit), is_lost))
    return found
