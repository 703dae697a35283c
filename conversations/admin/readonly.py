"""Read-only admin pages: rows are found and read, never added, changed or deleted, at low cost on tables of any size.

No page counts a table, searches texts, or sorts by a column without an index.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.text import capfirst

from conversations.models import Chat

LIST_LIMIT = 5000
"""Maximum number of rows in the pages of a list: more than anybody clicks through, and cheap to count on every page."""
CHATS_SEARCHED = 100
"""Maximum number of matching chats, newest first, whose rows a search shows."""
DAYS = {"1": "Past 24 hours", "7": "Past 7 days", "30": "Past 30 days"}


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # not subscriptable at run time
    """Paginates the first `LIST_LIMIT` rows, without a COUNT(*) over the whole table."""

    @cached_property
    def count(self) -> int:
        rows = self.object_list[:LIST_LIMIT]
        return rows.count() if isinstance(rows, QuerySet) else len(rows)


class ReadOnlyChangeList(ChangeList):
    """A list that leaves long columns in the database."""

    model_admin: ReadOnlyAdmin

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str | None] | None = None
    ) -> QuerySet[Any]:
        return super().get_queryset(request, exclude_parameters).defer(*self.model_admin.list_defer)


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """A read-only page. Subclasses name the long columns of their list and the lookup of their chat."""

    list_defer: ClassVar[tuple[str, ...]] = ()
    chat_path = "chat"
    """The lookup from a row to its chat; "" if the row is the chat."""
    chat_ordering: tuple[str, ...] = ()
    """Order of a list that shows one chat, along its index. Other lists have the newest row first, by primary key."""
    chat_filters: tuple[str, ...] = ()
    """Filters offered in a list that shows one chat. In other lists they would scan the table."""
    lookups: ClassVar[tuple[str, ...]] = ()
    """Query parameters of our own links, besides those of filters and of the chat."""
    list_filter: ClassVar[tuple[Any, ...]] = ()
    """Filters offered in every list: only those that find their rows by an index."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 100
    sortable_by = ()
    ordering: ClassVar[tuple[str, ...]] = ("-pk",)
    search_fields = ("pk",)  # only shows the search box: see get_search_results
    search_help_text = "Search by id, chat id or owner."

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        own = {"title": capfirst(str(self.opts.verbose_name_plural))}
        return super().changelist_view(request, own | (extra_context or {}))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return ReadOnlyChangeList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow only parameters of our own links. Django allows any column: filters could reveal hidden texts."""
        return lookup in {
            self.chat_parameter,
            *self.lookups,
            *(f"{name}__exact" for name in self.chat_filters),
        }

    @property
    def chat_parameter(self) -> str:
        """The query parameter that filters a list by one chat."""
        return f"{self.chat_path}__id__exact"

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return self.chat_ordering if self.chat_parameter in request.GET else self.ordering

    def get_list_filter(self, request: HttpRequest) -> tuple[Any, ...]:
        return (*self.list_filter, *(self.chat_filters if self.chat_parameter in request.GET else ()))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search by id if the term is one, else by name. Never search content."""
        term = search_term.strip()
        if not term:
            return queryset, False
        sought = uuid_in(term)
        if sought is None:
            return queryset.filter(self.of_chats(self.named(request, term))), False
        if self.chat_path and not self.model.objects.filter(pk=sought).exists():
            return queryset.filter(**{self.chat_path: sought}), False
        return queryset.filter(pk=sought), False

    def named(self, request: HttpRequest, term: str) -> Q:
        """Return the condition for chats that match a name: those of the user with this username."""
        return Q(owner__username__iexact=term)

    def of_chats(self, condition: Q) -> Q:
        """Return the condition for rows of the chats that meet a condition.

        Their ids are fetched first: given a single query, a planner may scan the big table instead.
        """
        chats = list(
            Chat.objects.filter(condition).order_by("-pk").values_list("pk", flat=True)[:CHATS_SEARCHED]
        )
        return Q(**{f"{self.chat_path or 'pk'}__in": chats})


class RecentFilter(admin.SimpleListFilter):
    """Filter by the days since a row changed. Subclasses name the column, which has an index."""

    title = "last activity"
    parameter_name = "updated"
    column = "updated_at"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(DAYS.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if (days := self.value()) not in DAYS:
            return queryset
        return queryset.filter(**{f"{self.column}__gte": timezone.now() - timedelta(days=int(days or 0))})


def uuid_in(term: str) -> UUID | None:
    """Return the id if a search term is one, else None."""
    try:
        return UUID(term)
    except ValueError:
        return None
