"""The state of a chat's memory as a label in lists, and the filters of lists.

Each filter finds its rows by an index, and only as many as a list pages through: its cost depends on those rows,
however many others there are. The label's sign does not depend on colour.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import relative_time
from conversations.admin.access import LIST_LIMIT, number_in
from conversations.models import Message, Status
from memory.explain.reasons import error_words
from memory.folding import work
from memory.models import ConversationBrief, SummaryRevision
from memory.policies import POLICIES, policy_name
from memory.work import CONDITIONS, work_of

MEMORY, OWNER = "memory", "owner"
"""The query parameters of the filters that other pages link to."""

STATES: Final[Mapping[str, str]] = {
    "failing": "Failing",
    "update": "Updating or queued",
    "rebuild": "Rebuilding or queued",
    "degraded": "Made by the built-in summarizer",
}
"""Labels of the states of memory that a list can be filtered by; `memory.work.CONDITIONS` has them as queries."""


def chip(kind: str, text: str) -> SafeString:
    """A label for a state: its kind (`good`, `busy`, `paused` or `bad`) and its text."""
    return format_html('<span class="cm-state cm-state-{}">{}</span>', kind, text)


def health_of(brief: ConversationBrief | None) -> SafeString:
    """What is happening to the memory; after a failure also its reason and the time of the next attempt.

    Whether a worker is running is said on the start page.
    """
    work = work_of(brief, worker_problem=lambda: None)
    label = chip(work.kind, work.label)
    if brief is None or not work.attempts:
        return label
    why = error_words(work.error) if work.error else ""
    at = brief.next_attempt_at
    when = format_html(" Next attempt {}", relative_time(at)) if at else ""
    return format_html("{}<small>{}{}</small>", label, why, when)


def memory_of(brief: ConversationBrief | None) -> SafeString:
    """The state of a chat's memory and its version in use; a chat without messages may have no brief."""
    text = "no summary"
    if brief is not None and brief.head:
        kept = "" if brief.kept_percent is None else f" · {brief.kept_percent}% kept"
        text = f"version {brief.head} · {brief.token_count:,} tokens{kept}"
    return format_html("{}<small>{}</small>", health_of(brief), text)


def waiting() -> QuerySet[ConversationBrief]:
    """The briefs of chats with work, in the order of their index."""
    return ConversationBrief.objects.filter(work.WANTED).order_by("next_attempt_at")


class ChoiceFilter(admin.SimpleListFilter):
    """A filter with a fixed set of choices; any other value in the URL filters nothing."""

    choices_offered: Mapping[str, str] = {}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(self.choices_offered.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value() or ""
        return self.chosen(queryset, value) if value in self.choices_offered else queryset

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the rows with the chosen value."""
        raise NotImplementedError(f"{type(self).__name__}.chosen")


class MemoryFilter(ChoiceFilter):
    """A filter for lists of rows whose key is a chat's id."""

    title = "memory"
    parameter_name = MEMORY
    choices_offered = STATES

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(pk__in=waiting().filter(CONDITIONS[value]).values("pk")[:LIST_LIMIT])


class RecentFilter(ChoiceFilter):
    title = "last activity"
    parameter_name = "updated"
    choices_offered = {"1": "Past 24 hours", "7": "Past 7 days", "30": "Past 30 days"}

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(updated_at__gte=timezone.now() - timedelta(days=int(value)))


class PolicyFilter(ChoiceFilter):
    title = "policy"
    parameter_name = "policy"
    choices_offered = {name: policy_name(name) for name in sorted(POLICIES)}

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(policy=value)


class TroubleFilter(ChoiceFilter):
    """Chats with a problem: a reply failed, or the summary in use kept too little."""

    title = "trouble"
    parameter_name = "trouble"
    choices_offered = {"failed": "Failed replies", "quality": "Low quality: too few details kept"}

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        found: QuerySet[Any] = Message.objects.filter(status=Status.FAILED)
        if value == "quality":
            found = SummaryRevision.objects.filter(is_wanting=True, version=F("chat__brief__head"))
        return rows.filter(pk__in=found.order_by("-pk").values("chat_id")[:LIST_LIMIT])


class OwnerFilter(admin.SimpleListFilter):
    """Filter by an owner, chosen with a link in the list; the filter itself offers only the way back to all."""

    title = "owner"
    parameter_name = OWNER

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        owners = User.objects.filter(pk=number_in(self.value()) or 0)
        return [(str(owner.pk), owner.username) for owner in owners.only("username")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(owner_id=self.value()) if self.lookup_choices else queryset


OF_CHATS = (MemoryFilter, RecentFilter, PolicyFilter, TroubleFilter, OwnerFilter)
