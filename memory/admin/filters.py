"""Lists narrowed to chats whose memory is in a certain state: those that the overview counts.

Such chats are found by the index of briefs that wait, and only as many of them as a list pages through. So a filter
costs what those chats cost, however many others there are. Nothing is counted.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from conversations.admin_facts import LIST_LIMIT
from memory.waiting import STATES, waiting

PARAMETER = "memory"


class MemoryFilter(admin.SimpleListFilter):
    """For lists of rows whose key is a chat's id."""

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
