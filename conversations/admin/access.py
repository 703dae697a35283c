"""Which staff may read what people said: read-only pages of rows, content only with a permission, and the audit log.

Content is anything that people typed or a model made from it: messages, titles, instructions, metadata, options,
keys, memory, errors that may quote. Ids, usernames, counts, models, costs and times are not content: lists show these
to all staff who may view the rows, with ids in place of titles. Each view of content is recorded, and no user can
change the record. No page counts a table, searches texts, or sorts by a column without an index.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, ClassVar
from uuid import UUID

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Model, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import pluralize
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import copied_id, short_id
from conversations.accounts.models import EndUser
from conversations.admin.html import admin_url, column, heading, link, moment, since
from conversations.models import Chat, ContentView
from memory.usage.figures import usd

LIST_LIMIT = 5000
"""Maximum number of rows in the pages of a list: more than staff click through, and cheap to count on every page."""
CHATS_SEARCHED = 100
"""Maximum number of chats by one owner, or with one title, newest first, whose rows a search shows."""


def cost(description: str = "cost") -> Any:
    """A column for staff who may see costs."""
    shown = column(description, lambda row: usd(row.cost_usd if getattr(row, "priced", True) else None))
    shown.is_cost = True
    return shown


COST = cost()


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # not subscriptable at run time
    """Paginates the first `LIST_LIMIT` rows, without a COUNT(*) over the whole table."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.values("pk")[:LIST_LIMIT].count())  # without columns that are computed for the rows shown


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """A read-only list, newest row first, with read-only pages."""

    lookups: ClassVar[tuple[str, ...]] = ()
    """Query parameters of our own links, besides those of filters."""
    list_filter: ClassVar[tuple[Any, ...]] = ()
    """Only filters that find their rows by an index."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 100
    sortable_by = ()
    ordering: ClassVar[tuple[str, ...]] = ("-pk",)

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        shown = sees_cost(request)
        return [one for one in super().get_list_display(request) if shown or not hasattr(one, "is_cost")]

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    has_add_permission = has_delete_permission = has_change_permission

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return None also for a number too large for the column, which Django does not catch for a foreign key."""
        with suppress(OverflowError):
            return super().get_object(request, object_id, from_field)
        return None

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allow only parameters of our own links. Django allows any column: filters could reveal hidden texts."""
        return lookup in {*self.lookups, *(getattr(one, "parameter_name", "") for one in self.list_filter)}


def uuid_in(term: str) -> UUID | None:
    """Return the id if a search term is one, else None."""
    try:
        return UUID(term)
    except ValueError:
        return None


def end_user_named(term: str) -> int | None:
    """Return the end user whom a search term names as `app/id`, if it does."""
    name, _, external_id = term.partition("/")
    found = EndUser.objects.filter(app__user__username=name, external_id=external_id)
    return found.values_list("pk", flat=True).first()


def number_in(text: str | None) -> int | None:
    """Parse a number from a URL or a form; None if it is none."""
    return int(text) if text and text.isdecimal() and len(text) < 10 else None


LIST, SEARCH, EXPORT = "list", "search", "export"
"""Object ids of views that were not of one object's page: a list with texts; a search in texts; all of a user."""
WHERE = {LIST: "{} row{} of a list", SEARCH: "{} hit{} of a search", EXPORT: "{} chat{} of an export"}


def record(request: HttpRequest, page: str, looks: Iterable[tuple[Chat, Any]]) -> None:
    """Record that content was seen on `page`. Each of `looks` is a chat and the id of an object, `LIST` or `SEARCH`."""
    seen = Counter((chat.owner_id, chat.pk, object_id) for chat, object_id in looks)
    _add(request, page, [(*one, count) for one, count in seen.items()])


def record_list(request: HttpRequest, page: str, chats: Sequence[Chat], object_id: str = LIST) -> None:
    """Record once that a list on `page` showed titles of `chats`, one for each of its rows.

    The record names the chat and the owner if there is only one.
    """
    if chats:
        owners, ids = {chat.owner_id for chat in chats}, {chat.pk for chat in chats}
        owner_id = owners.pop() if len(owners) == 1 else None
        chat_id = ids.pop() if len(ids) == 1 else None
        _add(request, page, [(owner_id, chat_id, object_id, len(chats))])


def record_export(request: HttpRequest, owner: User) -> None:
    """Record that all data of a user was exported."""
    _add(request, "auth_user", [(owner.pk, None, EXPORT, owner.chats.count())])


def _add(request: HttpRequest, page: str, seen: Iterable[tuple[int | None, UUID | None, Any, int]]) -> None:
    viewer = signed_in(request)
    by_whom = {"viewer": viewer, "viewer_name": viewer.username, "page": page}
    ContentView.objects.bulk_create(
        ContentView(**by_whom, owner_id=owner_id, chat_id=chat_id, object_id=object_id, count=count)
        for owner_id, chat_id, object_id, count in seen
    )


@admin.register(ContentView)
class ContentViewAdmin(ReadOnlyAdmin):
    """Views, newest first. Each links to its page, even if the object is gone."""

    list_display = (since("at", "when"), "viewer_name", "seen", "in_chat", "owned_by")
    fields = (moment("at"), "viewer_name", "viewer", "seen", "in_chat", "owned_by")
    lookups = ("chat_id__exact",)
    search_fields = ("pk",)  # only shows the search box: see get_search_results
    search_help_text = "Search by chat id or viewer."

    def get_queryset(self, request: HttpRequest) -> QuerySet[ContentView]:
        owner = User.objects.filter(pk=OuterRef("owner_id")).values("username")
        rows: QuerySet[ContentView] = super().get_queryset(request).annotate(owner_name=Subquery(owner))
        return rows

    @admin.display(description="owner")
    def owned_by(self, look: Any) -> str:
        """The owner's name, or the id of an owner who was deleted."""
        if look.owner_id is None:
            return "several"
        return look.owner_name or f"user {look.owner_id}, deleted"

    @admin.display(description="read")
    def seen(self, look: ContentView) -> SafeString | str:
        """The page of an object, as a link; or rows of a list, or hits of a search."""
        try:
            kind = apps.get_model(look.page.replace("_", ".", 1))._meta.verbose_name
            if look.object_id not in WHERE:
                text = format_html("{} {}", kind, short_id(look.object_id))
                return link(text, look.page, "change", look.object_id)
        except (LookupError, ValueError, NoReverseMatch):  # the page no longer exists
            return f"{look.page} {look.object_id}"
        return f"{kind}: {WHERE[look.object_id].format(look.count, pluralize(look.count))}"

    @admin.display(description="chat")
    def in_chat(self, look: ContentView) -> SafeString | str:
        if look.chat_id is None:
            return "several"
        return link(short_id(look.chat_id), "conversations_chat", "change", look.chat_id)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ContentView], search_term: str
    ) -> tuple[QuerySet[ContentView], bool]:
        """Search by chat id if the term is an id, else by the viewer's whole username."""
        term = search_term.strip()
        if not term:
            return queryset, False
        chat_id = uuid_in(term)
        found = {"viewer__username__iexact": term} if chat_id is None else {"chat_id": chat_id}
        return queryset.filter(**found), False


def signed_in(request: HttpRequest) -> User:
    """The member of staff who makes the request: the admin admits only staff."""
    assert isinstance(request.user, User)
    return request.user


def may_see(request: HttpRequest) -> bool:
    """Whether the requesting user may read content."""
    return bool(request.user.has_perm("conversations.view_content"))


def sees_cost(request: HttpRequest) -> bool:
    """Whether the requesting user may see what chats and their memory cost in money."""
    return bool(request.user.has_perm("memory.view_cost"))


def refused(request: HttpRequest) -> HttpResponse:
    """The page in place of one with content, for staff who may not read it: one sentence that says why."""
    context = {**admin.site.each_context(request), "title": "Only for staff who may read chats"}
    return TemplateResponse(request, "admin/refused.html", context, status=403)


class ContentAdmin(ReadOnlyAdmin):
    """Rows with content, of one chat each, which is selected along with them."""

    chat_path = "chat"
    """The lookup from a row to its chat; "" if the row is the chat."""
    chat_ordering: tuple[str, ...] = ()
    """Order of a list that shows one chat, along its index."""
    chat_filters: tuple[str, ...] = ()
    """Filters offered in a list that shows one chat. In other lists they would scan the table."""
    content_columns: ClassVar[tuple[str, ...]] = ()
    """Columns that show content, in addition to `title_link`."""
    page_template = ""
    """The template of a row's page, which gets `page_context`; "" for Django's own with `fieldsets`."""
    list_select_related: ClassVar[Any] = ("chat",)
    search_fields = ("pk",)  # only shows the search box: see get_search_results
    search_help_text = "Search by id, chat id or owner; with permission to read content, also by title."

    # Which rows a list shows

    @property
    def chat_parameter(self) -> str:
        """The query parameter that filters a list by one chat."""
        return f"{self.chat_path}__id__exact"

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        own = {self.chat_parameter, *(f"{name}__exact" for name in self.chat_filters)}
        return lookup in own or super().lookup_allowed(lookup, value, request)

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return self.chat_ordering if self.chat_parameter in request.GET else self.ordering

    def get_list_filter(self, request: HttpRequest) -> tuple[Any, ...]:
        return (*self.list_filter, *(self.chat_filters if self.chat_parameter in request.GET else ()))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search by id if the term is one, else by the name of an owner or chat. Never search other content."""
        term = search_term.strip()
        if not term:
            return queryset, False
        sought = uuid_in(term)
        if sought is None:
            return queryset.filter(self.of_chats_named(request, term)), False
        is_row = not self.chat_path or self.model.objects.filter(pk=sought).exists()
        return queryset.filter(**{"pk" if is_row else self.chat_path: sought}), False

    def of_chats_named(self, request: HttpRequest, term: str) -> Q:
        """Return the condition for rows of an end user's chats; else of an owner's, and of chats with this title.

        Titles are only searched if the viewer may read them, and recorded, as hits reveal them. The chats' ids are
        fetched first: given a single query, a planner may scan the big table instead.
        """
        newest = Chat.objects.order_by("-pk")
        end_user = end_user_named(term)
        users = User.objects.filter(pk=end_user) if end_user else User.objects.filter(username__iexact=term)
        owners = list(users.values_list("pk", flat=True)[:CHATS_SEARCHED])
        ids = list(newest.filter(owner__in=owners).values_list("pk", flat=True)[:CHATS_SEARCHED])
        if may_see(request) and not end_user:
            titled = list(newest.filter(title__icontains=term).only("owner")[:CHATS_SEARCHED])
            record_list(request, self.own_name, titled, SEARCH)
            ids += [chat.pk for chat in titled]
        return Q(**{f"{self.chat_path or 'pk'}__in": ids})

    # The columns of a row, and the record of a view

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return what the template of a row's page shows."""
        raise NotImplementedError(f"{type(self).__name__}.page_context")

    def chat_of(self, row: Any) -> Chat:
        """Return the chat of a row."""
        chat: Chat = attrgetter(self.chat_path.replace("__", "."))(row) if self.chat_path else row
        return chat

    @property
    def own_name(self) -> str:
        """The page's name in the audit log and in URLs, `app_model`."""
        return f"{self.opts.app_label}_{self.opts.model_name}"

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied
        if not may_see(request):
            return refused(request)
        row = self.get_object(request, unquote(object_id))
        if row is None:
            return super().change_view(request, object_id, form_url)
        if self.page_template:
            return self.page(request, row, self.page_template, self.page_context(request, row))
        context = {"chat": self.record_page(request, row), "title": str(row).capitalize(), "subtitle": None}
        return super().change_view(request, object_id, form_url, context)

    def page(self, request: HttpRequest, row: Any, template: str, context: dict[str, Any]) -> HttpResponse:
        """Render a page of a row with a template of our own."""
        return self.render(request, template, {"chat": self.record_page(request, row), **context})

    def render(self, request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
        """Render a template of our own. What it shows must have been recorded."""
        common = {**self.admin_site.each_context(request), "opts": self.opts, "media": self.media}
        return TemplateResponse(request, template, {**common, **context})

    def record_page(self, request: HttpRequest, row: Any) -> Chat:
        """Record that a page of a row is seen. Returns its chat, which the breadcrumbs show."""
        chat = self.chat_of(row)
        record(request, self.own_name, [(chat, row.pk)])
        return chat

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        columns = super().get_list_display(request)
        if may_see(request):
            return columns
        return ["in_chat" if one == "title_link" else one for one in columns if one not in self.content_columns]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        if isinstance(response, TemplateResponse) and may_see(request):
            changelist = (response.context_data or {}).get("cl")
            if changelist is not None:
                self.record_rows(request, list(changelist.result_list))
        return response

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            self.delete_model(request, row)

    def record_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Record that a list with these rows was seen."""
        record_list(request, self.own_name, [self.chat_of(row) for row in rows])

    @admin.display(description="chat")
    def title_link(self, row: Any) -> SafeString:
        """The chat's title as a link to the row's page, which leads to the chat, and the chat's id."""
        chat = self.chat_of(row)
        url = admin_url(self.own_name, "change", row.pk)
        html = '<a class="cm-name" dir="auto" href="{}">{}</a><small>{}</small>'
        return format_html(html, url, heading(chat), copied_id(chat.pk))

    @admin.display(description="chat")
    def in_chat(self, row: Any) -> SafeString:
        """The chat's id, for staff who may not read titles."""
        return short_id(self.chat_of(row).pk)
