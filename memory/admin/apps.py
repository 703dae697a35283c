"""Apps, their end users, what both cost, and webhook events: lists by index, however many end users an app has.

An app's account is on its user's page, with its tokens and its deletion; an end user's account has only a page here.
The id that an app gave to an end user is no content: all staff who may view the rows see it.
"""

from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import relative_time, viewer_time
from conversations.accounts.end_users import create_app
from conversations.accounts.models import App, EndUser
from conversations.admin.access import LIST_LIMIT, ReadOnlyAdmin, cost, end_user_named
from conversations.admin.accounts import BySuperusers, Erasing, chats_and_usage, count_of, limits_of
from conversations.admin.html import column, link, moment, since
from conversations.models import Chat
from conversations.retention.models import Erasure
from conversations.webhooks import outbox
from conversations.webhooks.models import WebhookEvent
from memory.admin.filters import AppFilter
from memory.admin.start_page import INPUT, OUTPUT, DayAdmin
from memory.models import Consent, OwnerMonth
from memory.usage import daily

APP = "app__user"
"""Fetched apart from its rows: with a join, SQLite begins at the few apps, and sorts all rows of one."""


def _list(text: str, model: str, **query: Any) -> SafeString:
    """Link to some rows of a list."""
    return link(text, model, "changelist", **query)


USAGE = column("cost and tokens", lambda row: _list("by month", "memory_ownermonth", owner__id__exact=row.pk))
OF_APP = column("app", lambda row: link(row.app, "conversations_app", "change", row.app_id) if row.app_id else "–")


class CostingAdmin(ReadOnlyAdmin):
    """Rows whose key is an account's, with the account's cost of this month."""

    actions = None
    list_select_related = ("user",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        month = daily.today().replace(day=1)
        months = OwnerMonth.objects.filter(owner=OuterRef("pk"), month=month, priced__gt=0)
        costs = {"cost_usd": Subquery(months.values("cost_usd"))}
        rows: QuerySet[Any] = super().get_queryset(request).annotate(**costs)
        return rows


class NewApp(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    """The name of an app, which is that of its account."""

    class Meta:
        model = User
        fields = ("username",)
        labels = {"username": "Name"}
        help_texts = {"username": "Also the user name of its account, which has no password."}

    def save(self, commit: bool = True) -> Any:
        super().save(commit=False)
        return create_app(self.cleaned_data["username"])


def _webhook(app: App) -> SafeString | str:
    """The webhook's host: the rest of its URL may be a secret of the app."""
    if not app.webhook_url:
        return "none"
    waiting, given_up = outbox.counts(app=app)
    counts = f"{waiting:,} waiting, {given_up:,} given up"
    events = _list(counts, "conversations_webhookevent", app=app.pk)
    names = app.webhook_events.replace(" ", ", ")
    return format_html("{} to {} · {}", names, urlsplit(app.webhook_url).netloc, events)


@admin.register(App)
class AppAdmin(BySuperusers, CostingAdmin):
    """Superusers make apps and set them up; an app sets its webhook itself, by the API."""

    list_display = (
        column("app", lambda row: row.user),
        *(cost("cost, this month"), since("created_at", "created")),
    )
    readonly_fields = (
        column("account", lambda row: link(row, "auth_user", "change", row.pk)),
        column("end users", lambda row: _list(count_of(row.end_users), "conversations_enduser", app=row.pk)),
        column(
            "chats",
            lambda row: _list(count_of(Chat.objects.filter(app=row)), "conversations_chat", app=row.pk),
        ),
        *(USAGE, column("webhook", _webhook), moment("created_at", "created")),
    )
    has_delete_permission = ReadOnlyAdmin.has_delete_permission

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return (*self.readonly_fields, "requires_end_user", "retain_days", "across") if obj else ("username",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.readonly_fields if obj else ()

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        return super().get_form(request, obj, change, **kwargs) if obj else NewApp

    def save_model(self, request: HttpRequest, obj: App, form: Any, change: bool) -> None:
        """Save what is set here: the webhook may have changed while the page was open."""
        obj.save(update_fields=["requires_end_user", "retain_days", "across"])


class SetEndUser(forms.ModelForm):  # type: ignore[type-arg]  # as above
    """Whether an app may act for an end user."""

    is_active = forms.BooleanField(
        label="active",
        required=False,
        help_text="If not, every request for this end user is refused. Their chats are kept.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["is_active"] = self.instance.user.is_active


@admin.register(EndUser)
class EndUserAdmin(Erasing, CostingAdmin):
    """Staff who may change them can disable them; staff who may delete them can erase them with all their data."""

    list_display = (
        *("external_id", OF_APP),
        column("chats", lambda row: _list("chats", "conversations_chat", owner__id__exact=row.pk)),
        *(cost("cost, this month"), "is_active"),
    )
    list_filter = (AppFilter,)
    ordering = ("app_id", "external_id")  # along their index
    search_fields = ("pk",)  # only shows the search box: see get_search_results
    search_help_text = "Search by the whole id in the app, or by app/id."
    form = SetEndUser
    readonly_fields = (
        *("external_id", OF_APP),
        column("chats and usage", lambda row: chats_and_usage(row.user)),
        column("limits", lambda row: limits_of(row.user)),
        *(USAGE, column("first seen", lambda row: viewer_time(row.user.date_joined))),
    )
    fields = (*readonly_fields, "is_active")
    has_delete_permission = admin.ModelAdmin.has_delete_permission

    @admin.display(description="active", boolean=True)
    def is_active(self, row: EndUser) -> bool:
        return row.user.is_active

    def get_queryset(self, request: HttpRequest) -> QuerySet[EndUser]:
        return super().get_queryset(request).prefetch_related(APP)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[EndUser], search_term: str
    ) -> tuple[QuerySet[EndUser], bool]:
        """Search by `app/id`, and by the id in each app, along the index of both."""
        if not (term := search_term.strip()):
            return queryset, False
        of_all = list(App.objects.values_list("pk", flat=True)[:LIST_LIMIT])
        found = EndUser.objects.filter(app__in=of_all, external_id=term).values_list("pk", flat=True)
        return queryset.filter(pk__in=[*found[:LIST_LIMIT], end_user_named(term) or 0]), False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """An end user who is being erased stays disabled."""
        may = admin.ModelAdmin.has_change_permission(self, request, obj)
        return may and not (obj and Erasure.objects.filter(pk=obj.pk).exists())

    def save_model(self, request: HttpRequest, obj: EndUser, form: Any, change: bool) -> None:
        User.objects.filter(pk=obj.pk).update(is_active=form.cleaned_data["is_active"])


@admin.register(Consent)
class ConsentAdmin(ReadOnlyAdmin):
    """What the chats of a person share, who decided that, and when."""

    list_display = ("user", "across", "lifts_pins", "given_by", since("given_at", "since"))
    list_select_related = ("user", "given_by")
    fields = ("user", "across", "lifts_pins", "given_by", moment("given_at"))
    search_fields = ("=user__username",)
    search_help_text = "Search by user name, that of an end user as app/id."


@admin.register(WebhookEvent)
class WebhookEventAdmin(ReadOnlyAdmin):
    """Until a week after each was delivered or given up: ids and figures, no text."""

    list_display = (
        *("type", OF_APP, "state", "attempts", since("created_at", "since"), "error"),
        column("next attempt", lambda row: relative_time(row.not_before) if row.state == "waiting" else "–"),
    )
    list_select_related = ("app__user",)
    list_filter = (AppFilter, "state")
    lookups = ("state__exact",)
    fields = readonly_fields = (
        *("type", "event_id", OF_APP, "end_user"),
        column("chat", lambda row: link(row.chat_id, "conversations_chat", "change", row.chat_id)),
        *("figures", "state", "attempts", "error"),
        *(moment("created_at"), moment("not_before", "next attempt"), moment("ended_at")),
    )


def _month(row: OwnerMonth) -> SafeString:
    """Link to the rows of the same month and app."""
    of_app = {"app": row.app_id} if row.app_id else {}
    return _list(f"{row.month:%Y-%m}", "memory_ownermonth", month=row.month, **of_app)


def _account(row: OwnerMonth) -> str:
    return f"{row.owner} and its end users" if row.owner_id == row.app_id else str(row.owner)


@admin.register(OwnerMonth)
class OwnerMonthAdmin(DayAdmin):
    """The months of an account; each links to that month of all accounts of its app, the costliest first."""

    list_display = (
        column("month", _month),
        column("account", _account),
        *(OF_APP, "replies", "folds", INPUT, OUTPUT, cost()),
    )
    list_select_related = ("owner",)
    list_filter = (AppFilter,)
    lookups = ("owner__id__exact", "month")
    ordering = ("-month", "-cost_usd", "-pk")

    def get_queryset(self, request: HttpRequest) -> QuerySet[OwnerMonth]:
        rows: QuerySet[OwnerMonth] = super().get_queryset(request)
        return rows.prefetch_related(APP)
