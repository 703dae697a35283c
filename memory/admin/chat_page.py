"""The page of one chat: its turns with what has become of each, and beside them its memory and how that is doing.

Who may not read content gets counts, marks and lengths; then no text is even read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist
from django.http import HttpRequest
from django.utils import timezone

from conversations.admin_content import Page, may_see
from conversations.admin_html import admin_url
from conversations.admin_messages import code_of
from conversations.models import Chat
from memory import services
from memory.admin.actions import progress_url
from memory.admin.pins import pin_rows
from memory.context import Context
from memory.coverage import budget_of, coverage_of
from memory.explaining import error_words
from memory.holding import folded_turns, versions_of
from memory.lineage import remembered
from memory.models import ConversationBrief, Requested, SummaryRevision
from memory.policies import POLICIES
from memory.policies.options import chosen, usual
from memory.progress import told
from memory.searching import Hit, search_chat
from memory.timeline import Mark, Standing
from memory.timelines import Wanted, timeline

MOST_FOUND = 20
"""Messages that a search shows."""
QUERY_CHARS = 2000
"""Of a search: there is nothing to find by more."""
_MAX_SEQ = 2**31 - 2
_PAGES = ("before", "after", "at")


@dataclass(frozen=True, slots=True)
class Found:
    """A message that a search found. `pieces` are its excerpt, each with whether it is what was looked for."""

    seq: int
    role: str
    mark: Mark
    pieces: list[tuple[str, bool]]


def brief_of(chat: Chat) -> ConversationBrief | None:
    """The chat's brief; a chat in which nothing was said may have none."""
    try:
        return chat.brief
    except ObjectDoesNotExist:
        return None


def chat_page(request: HttpRequest, chat: Chat, name: str) -> Page:
    """What the page of `chat` shows to whoever asks, for the part of its timeline that is asked for."""
    may, brief, preview = may_see(request), brief_of(chat), services.preview_last(chat)
    wanted, versions = wanted_in(request.GET, chat), versions_of(brief)
    shown = timeline(chat, brief, preview.plan, versions, wanted, texts=may)
    query = request.GET.get("q", "").replace("\0", "").strip()[:QUERY_CHARS] if may else ""
    found = _found(chat, brief, preview, query) if query else []
    sections = remembered(brief) if brief else []
    pins = pin_rows(request, chat, texts=may)
    context = {
        "title": f"Chat: {name}" if may else f"Chat {chat.pk}",
        "subtitle": None,
        "chat": chat,
        "timeline": shown,
        "pins": pins,
        "wanted": wanted,
        "is_newest": wanted == Wanted(),
        "may_preview": may,
        "coverage": coverage_of(preview.plan, folded_turns(brief, versions)),
        **panel(chat, brief, preview),
        "progress_url": _progress_url(request, chat, brief),
    }
    content = {
        "query": query,
        "found": found,
        "remembered": sections,
        "error_said": (brief.last_error or {}).get("message", "") if brief else "",
    }
    texts = {
        "title": chat.title,
        "options": chat.options,
        "instructions": chat.instructions,
        "metadata": chat.metadata,
        "messages": shown.texts,
        "memory": "\n\n".join(section.text for section in sections),
        "pins": "\n\n".join(pin["text"] for pin in pins),
    }
    return Page(texts, context, content)


def wanted_in(asked: Mapping[str, str], chat: Chat) -> Wanted:
    """Which page of the timeline a query string means; the newest where it means none."""
    for name in _PAGES:
        number = asked.get(name, "").strip()
        if number.isdecimal() and len(number) < 11:
            return Wanted(**{name: _within(name, min(int(number), _MAX_SEQ), chat)})
    return Wanted()


def _within(name: str, seq: int, chat: Chat) -> int:
    """`seq`, or the nearest that the chat has."""
    return min(max(1, seq), max(1, chat.last_seq)) if name == "at" else seq


def panel(chat: Chat, brief: ConversationBrief | None, preview: Context) -> dict[str, Any]:
    """The memory beside the timeline: facts that are nobody's words."""
    sections = [(section.kind, section.tokens) for section in preview.sections]
    return {
        "brief": brief if brief is not None and chat.last_seq else None,
        "head": _head(brief),
        "budget": budget_of(sections, preview.budget),
        "numbers": numbers_of(chat),
        "state_of_it": _states(chat, brief) if brief else [],
        "error_words": error_words(code_of(brief.last_error)) if brief and brief.last_error else "",
        "rebuild": told(brief) if brief else None,
        "comparisons_url": admin_url("memory_comparison", "compare", chat.pk),
    }


def numbers_of(chat: Chat) -> list[tuple[str, object, object]]:
    """The numbers that the chat has chosen for itself: each option, its value, and what it is for other chats."""
    policy = POLICIES.get(chat.policy)
    if policy is None:
        return []
    others = usual(policy, settings.MEMORY_LIMITS)
    return [(name, value, others[name]) for name, value in sorted(chosen(policy, chat.options).items())]


def _progress_url(request: HttpRequest, chat: Chat, brief: ConversationBrief | None) -> str:
    """What the page asks how the work on the memory goes; "" where there is none, and for those who may not ask."""
    if brief is None or not chat.last_seq or not request.user.has_perm("memory.view_conversationbrief"):
        return ""
    return progress_url(brief)


def _head(brief: ConversationBrief | None) -> SummaryRevision | None:
    """The revision in use, without its texts."""
    if brief is None or not brief.head:
        return None
    rows = SummaryRevision.objects.filter(chat_id=brief.chat_id, version=brief.head)
    return rows.only("id", "version", "kind", "created_at", "tokens_after", "degraded", "is_wanting").first()


def _states(chat: Chat, brief: ConversationBrief) -> list[tuple[str, str]]:
    """What is to be known of the memory's health: (kind, sentence) each; the kind says how it is drawn."""
    said: list[tuple[str, str]] = []
    if brief.degraded:
        said.append(("bad", "Degraded: the built-in summarizer made it, because the model kept failing."))
    if brief.requested == Requested.REBUILD:
        said.append(("busy", "A rebuild from the original messages was asked for."))
    elif brief.requested:
        said.append(("busy", "A new summary was asked for."))
    if brief.due:
        said.append(("busy", f"Due: the worker folds older turns {_when(brief)}."))
    if brief.policy != chat.policy:
        said.append(("busy", f"Made by policy {brief.policy}; the chat now asks for {chat.policy}."))
    return said or [("good", "Up to date: nothing waits to be folded.")]


def _when(brief: ConversationBrief) -> str:
    parked = brief.next_attempt_at is not None and brief.next_attempt_at > timezone.now()
    return "with its next attempt" if parked else "as soon as it comes to it"


def _found(chat: Chat, brief: ConversationBrief | None, preview: Context, query: str) -> list[Found]:
    standing = Standing(preview.plan, brief.folded_through_seq if brief else 0)
    return [
        Found(hit.message.seq, hit.message.role, standing.at(hit.message.seq), pieces_of(hit))
        for hit in search_chat(chat, query, MOST_FOUND)
    ]


def pieces_of(hit: Hit) -> list[tuple[str, bool]]:
    """The snippet of a hit, cut where what was looked for begins and ends."""
    pieces, done = [], 0
    for start, end in hit.matches:
        pieces += [(hit.snippet[done:start], False), (hit.snippet[start:end], True)]
        done = end
    return [piece for piece in [*pieces, (hit.snippet[done:], False)] if piece[0]]
