"""The state of a chat's memory as a label in lists, and the filters by it and by app.

A filter finds its rows by an index, and only as many as a list pages through: its cost depends on those rows,
however many others there are. The label's sign does not depend on colour.
"""

from collections.abc import Mapping
from typing import Any, Final

from django.contrib import admin
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import relative_time
from conversations.accounts.models import App
from conversations.admin.access import LIST_LIMIT, number_in
from conversations.models import Message, Status
from memory.explain.reasons import error_words
from memory.folding import leases
from memory.models import ConversationBrief, SummaryRevision
from memory.status import CONDITIONS, work_of

MEMORY = "memory"
"""The query parameter of the filter, to which the start page links."""

STATES: Final[Mapping[str, str]] = {
    "failing": "Failing",
    "update": "Updating or queued",
    "rebuild": "Rebuilding or queued",
    "degraded": "Made by the built-in summarizer",
}
"""Labels of the states of memory that a list can be filtered by; `memory.status.CONDITIONS` has them as queries."""
APPS_NAMED = 100
"""The most apps that the filter by app names."""
DEFECTS = {"quality": "Low quality: too few details kept", "failed": "Failed replies"}
"""Labels of further troubles: the summary in use kept too little, or a reply failed."""


def chip(kind: str, text: str) -> SafeString:
    """A label for a state: its kind (`good`, `busy`, `paused` or `bad`) and its text."""
    return format_html('<span class="cm-state cm-state-{}">{}</span>', kind, text)


def memory_of(brief: ConversationBrief | None) -> SafeString:
    """The state of a chat's memory, and its version in use; a chat without messages may have no brief.

    After a failure also its reason and the time of the next attempt. Whether a worker is running is said on the start
    page.
    """
    work = work_of(brief, worker_problem=lambda: None)
    state, text = chip(work.kind, work.label), "no summary"
    if brief is not None and work.attempts:
        why, at = error_words(work.error) if work.error else "", brief.next_attempt_at
        when = format_html(" Next attempt {}", relative_time(at)) if at else ""
        state = format_html("{}<small>{}{}</small>", state, why, when)
    if brief is not None and brief.head:
        kept = "" if brief.kept_percent is None else f" · {brief.kept_percent}% kept"
        text = f"version {brief.head} · {brief.token_count:,} tokens{kept}"
    return format_html("{}<small>{}</small>", state, text)


def waiting() -> QuerySet[ConversationBrief]:
    """The briefs of chats with work, in the order of their index."""
    return ConversationBrief.objects.filter(leases.HAS_WORK).order_by("next_attempt_at")


class MemoryFilter(admin.SimpleListFilter):
    """A filter for lists of rows whose key is a chat's id; an unknown value filters nothing."""

    title = "memory"
    parameter_name = MEMORY

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list({**STATES, **DEFECTS}.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value() or ""
        chats: QuerySet[Any]
        if value in STATES:
            chats = waiting().filter(CONDITIONS[value]).values("pk")
        elif value == "failed":
            chats = Message.objects.filter(status=Status.FAILED).order_by("-pk").values("chat_id")
        elif value == "quality":
            wanting = SummaryRevision.objects.filter(is_wanting=True, version=F("chat__brief__head"))
            chats = wanting.order_by("-pk").values("chat_id")
        else:
            return queryset
        return queryset.filter(pk__in=chats[:LIST_LIMIT])


class AppFilter(admin.SimpleListFilter):
    """A filter for lists of rows with an app; of more apps than are named here, it is set by links."""

    title = parameter_name = "app"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        names = App.objects.order_by("user__username").values_list("pk", "user__username")
        return [(str(pk), name) for pk, name in names[:APPS_NAMED]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        number = number_in(self.value())
        if number is None:
            return queryset
        rows: QuerySet[Any] = queryset.filter(app=number)
        if "owner__id__exact" in request.GET:  # its rows are few, but the index of apps would read all of the app
            rows = queryset.annotate(app_number=F("app") + 0).filter(app_number=number)
        return rows
