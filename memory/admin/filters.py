"""Filters of the list of chats. Each finds its rows by an index, and only as many as the list can page through."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from conversations.admin.readonly import LIST_LIMIT
from conversations.models import Message, Status
from memory.models import ConversationBrief, SummaryRevision
from memory.policies import POLICIES, policy_name

DAYS = {"1": "Past 24 hours", "7": "Past 7 days", "30": "Past 30 days"}
"""Periods, in days, in which a chat was last changed, and their labels."""
KEPT = {
    "under-50": ("Under 50%", (0, 49)),
    "50-79": ("50–79%", (50, 79)),
    "80-94": ("80–94%", (80, 94)),
    "from-95": ("95% and more", (95, 100)),
}
"""Bands of the percentage of details that a summary kept, lowest first: labels and bounds."""
OWNER = "owner"


class OwnerFilter(admin.SimpleListFilter):
    """Filter by an owner, chosen with a link in the list; the filter itself offers only the way back to all."""

    title = "owner"
    parameter_name = OWNER

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(owner.pk), owner.username) for owner in self._chosen()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(owner_id=self.value()) if self._chosen() else queryset

    def _chosen(self) -> list[User]:
        value = self.used_parameters.get(OWNER) or ""
        number = value if isinstance(value, str) else str(value)
        if not (number.isdecimal() and len(number) < 10):
            return []
        return list(User.objects.filter(pk=int(number)).only("username"))


class PolicyFilter(admin.SimpleListFilter):
    title = "policy"
    parameter_name = "policy"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, policy_name(name)) for name in sorted(POLICIES)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(policy=self.value()) if self.value() in POLICIES else queryset


class UpdatedFilter(admin.SimpleListFilter):
    title = "last activity"
    parameter_name = "updated"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(DAYS.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if (days := self.value()) not in DAYS:
            return queryset
        return queryset.filter(updated_at__gte=timezone.now() - timedelta(days=int(days or 0)))


class TroubleFilter(admin.SimpleListFilter):
    """Filter chats with a problem: a reply failed, or the summary in use kept too little."""

    title = "trouble"
    parameter_name = "trouble"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterator[tuple[str, str]]:
        yield "failed", "Failed replies"
        yield "quality", "Low quality: too few details kept"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "failed":
            return queryset.filter(pk__in=_failed())
        return queryset.filter(pk__in=_low_quality()) if self.value() == "quality" else queryset


class KeptFilter(admin.SimpleListFilter):
    """Filter by how many of the details to keep the summary in use kept. What it lost can still be recalled."""

    title = "details kept"
    parameter_name = "kept"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, label) for name, (label, _) in KEPT.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if (band := KEPT.get(self.value() or "")) is None:
            return queryset
        briefs = ConversationBrief.objects.filter(kept_percent__range=band[1]).order_by("kept_percent")
        return queryset.filter(pk__in=briefs.values("pk")[:LIST_LIMIT])


def _failed() -> QuerySet[Any, Any]:
    """The chats of the newest failed replies."""
    failed = Message.objects.filter(status=Status.FAILED).order_by("-pk")
    return failed.values("chat_id")[:LIST_LIMIT]


def _low_quality() -> QuerySet[Any, Any]:
    """The chats whose summary in use is of low quality."""
    wanting = SummaryRevision.objects.filter(is_wanting=True, version=F("chat__brief__head"))
    return wanting.order_by("-pk").values("chat_id")[:LIST_LIMIT]


CHAT_FILTERS = (UpdatedFilter, PolicyFilter, TroubleFilter, KeptFilter, OwnerFilter)
