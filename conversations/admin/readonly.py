"""Admin pages of facts: found and read, never added, changed or deleted, and cheap on tables of any size.

No page counts a table, searches text, or sorts by a column without an index.
"""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.functional import cached_property
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from chatmemory.templatetags.dates import UNITS
from chatmemory.templatetags.menu import NAMES
from chatmemory.templatetags.viewing import short_id
from conversations.admin.html import admin_url, trail
from conversations.models import Chat

LIST_LIMIT = 5000
"""Rows a list pages through. More than anybody clicks through, and few enough to be counted on every page."""
LAST_YEAR = 9998
"""That a list can be narrowed to: the one after it is the last that there is to the language, too."""
CHATS_SEARCHED = 100
"""Chats of that name whose rows a search shows, newest first."""


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # not subscriptable at run time
    """Pages of the first `LIST_LIMIT` rows: no COUNT(*) over a whole table."""

    @cached_property
    def count(self) -> int:
        rows = self.object_list[:LIST_LIMIT]
        return rows.count() if isinstance(rows, QuerySet) else len(rows)


class FactList(ChangeList):
    """A list that leaves long columns in the database."""

    model_admin: FactAdmin

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str | None] | None = None
    ) -> QuerySet[Any]:
        rows = super().get_queryset(request, exclude_parameters)
        return rows.defer(*self.model_admin.list_defer)


class FactAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """A read-only page. Subclasses name the long columns of their list and their way to the chat."""

    list_defer: ClassVar[tuple[str, ...]] = ()
    chat_path = "chat"
    """The lookup that leads to the chat; "" on the chat itself."""
    chat_ordering: tuple[str, ...] = ()
    """Order of a list that shows one chat, along its index. Else it is the newest first, by primary key."""
    chat_filters: tuple[str, ...] = ()
    """Filters offered in a list that shows one chat. Elsewhere they would scan the table."""
    lookups: ClassVar[tuple[str, ...]] = ()
    """Query parameters of our own links, besides those of filters and of the chat."""

    list_filter: ClassVar[tuple[Any, ...]] = ()
    """Filters offered everywhere: only such as find their rows by an index."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 100
    sortable_by = ()
    ordering: ClassVar[tuple[str, ...]] = ("-pk",)
    search_fields = ("pk",)  # only switches the box on: see get_search_results
    search_help_text = "Search by id, chat id or owner."

    @admin.display(description="id")
    def short(self, row: Model) -> SafeString:
        return short_id(row.pk)

    @property
    def list_name(self) -> str:
        """What the menu and the pages call these rows."""
        return NAMES.get(self.opts.object_name or "", capfirst(str(self.opts.verbose_name_plural)))

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        own = {"title": self.list_name, "trail": trail((self.list_name, ""))}
        return super().changelist_view(request, own | (extra_context or {}))

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        row = kwargs.get("obj")
        rows = admin_url(f"{self.opts.app_label}_{self.opts.model_name}", "changelist")
        way = trail((self.list_name, rows), (str(row) if row is not None else "Add", ""))
        return super().render_change_form(request, {"trail": way} | context, *args, **kwargs)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return FactList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """What our own links ask for. Django allows any column: who may not read a text could find it out by asking."""
        filters = (f"{name}__exact" for name in self.chat_filters)
        if self.date_hierarchy and lookup in {f"{self.date_hierarchy}__{unit}" for unit in UNITS}:
            return value.isascii() and value.isdecimal() and len(value) <= 4 and int(value) <= LAST_YEAR
        return lookup in {self.chat_parameter, *self.lookups, *filters}

    @property
    def chat_parameter(self) -> str:
        """The query parameter that narrows a list to one chat."""
        return f"{self.chat_path}__id__exact"

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return self.chat_ordering if self.chat_parameter in request.GET else self.ordering

    def get_list_filter(self, request: HttpRequest) -> tuple[Any, ...]:
        return (*self.list_filter, *(self.chat_filters if self.chat_parameter in request.GET else ()))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """By id where the term is one, else by name. Never by what was said."""
        term = search_term.strip()
        if not term:
            return queryset, False
        wanted = uuid_in(term)
        if wanted is None:
            return queryset.filter(self._by_name(request, term)), False
        if self.model.objects.filter(pk=wanted).exists():
            return queryset.filter(pk=wanted), False
        if not self.chat_path:
            return queryset.none(), False
        return queryset.filter(**{self.chat_path: wanted}).order_by(
            *(self.chat_ordering or self.ordering)
        ), False

    def named(self, request: HttpRequest, term: str) -> Q:
        """Which chats are called so: those of the user of that name."""
        return Q(owner__username__iexact=term)

    def _by_name(self, request: HttpRequest, term: str) -> Q:
        named = Chat.objects.filter(self.named(request, term))
        if not self.chat_path:
            return Q(pk__in=named.values("pk"))
        # Their ids first: a planner that sees the whole question may walk the big table instead.
        chats = list(named.order_by("-pk").values_list("pk", flat=True)[:CHATS_SEARCHED])
        return Q(**{f"{self.chat_path}__in": chats})


def uuid_in(term: str) -> UUID | None:
    """The id that a search term is, if it is one."""
    try:
        return UUID(term)
    except ValueError:
        return None
