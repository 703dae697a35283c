"""The state of a chat's memory: as a label in lists, as filters of lists, and counted for the overview.

Chats with pending work are found by the index of waiting briefs, and only as many of them as a list pages through. So
the cost of a filter depends on those chats, however many others there are. The label's sign does not depend on colour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import ObjectDoesNotExist
from django.db import models
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from conversations.admin.html import Step, admin_url
from conversations.admin.readonly import LIST_LIMIT
from conversations.models import Chat
from memory.folding import lease
from memory.models import ConversationBrief
from memory.work import CONDITIONS, work_of

PARAMETER = "memory"


def memory_steps(chat_id: Any, *more: Step) -> list[Step]:
    """The breadcrumbs from a chat to a page of its memory."""
    return [("Memory", admin_url("memory_conversationbrief", "change", chat_id)), *more]


class MemoryFilter(admin.SimpleListFilter):
    """A filter for lists of rows whose key is a chat's id."""

    title = "memory"
    parameter_name = PARAMETER

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, state.label) for name, state in STATES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        state = STATES.get(self.value() or "")
        if state is None:
            return queryset
        briefs = waiting().filter(state.condition)
        return queryset.filter(pk__in=briefs.values("pk")[:LIST_LIMIT])


def brief_of(chat: Chat) -> ConversationBrief | None:
    """The chat's brief; None if there is none, as may be the case in a chat without messages."""
    try:
        return chat.brief
    except ObjectDoesNotExist:
        return None


def health_of(brief: ConversationBrief | None) -> SafeString:
    """A label for what is happening to the memory, for lists: they say elsewhere whether a worker is running."""
    work = work_of(brief, has_worker=lambda: True)
    return chip(work.kind, work.label)


def chip(kind: str, text: str) -> SafeString:
    """A label for a state: its kind (`good`, `busy`, `paused` or `bad`) and its text."""
    return format_html('<span class="cm-state cm-state-{}">{}</span>', kind, text)


@dataclass(frozen=True, slots=True)
class BriefState:
    """The label of a state, and the condition for waiting briefs to be in it."""

    label: str
    condition: Q
    is_trouble: bool = False


STATES = {
    "failing": BriefState("Failing", CONDITIONS["failing"], is_trouble=True),
    "update": BriefState("Updating or queued", CONDITIONS["update"]),
    "rebuild": BriefState("Rebuilding or queued", CONDITIONS["rebuild"]),
    "degraded": BriefState("Made by the built-in summarizer", CONDITIONS["degraded"], is_trouble=True),
}
"""States by the name that links use."""


def waiting() -> QuerySet[ConversationBrief]:
    """The briefs of chats with work, in the order of their index."""
    return ConversationBrief.objects.filter(lease.WANTED).order_by("next_attempt_at")


def counts(most: int) -> tuple[int, dict[str, int]]:
    """The number of chats with work, counted up to `most`, and how many of them are in each state. One query."""
    each = {name: models.Count("pk", filter=state.condition) for name, state in STATES.items()}
    found = waiting()[:most].aggregate(all=models.Count("pk"), **each)
    return found.pop("all"), found
