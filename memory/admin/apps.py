"""Apps, the people who use them, and what both cost: lists by index, however many people an app has.

An app's account is on its user's page, with its tokens and its deletion; a person's account has only a page here. The
id that an app gave to a person is no content: whoever may view the rows sees it.
"""

from datetime import date, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import OuterRef, QuerySet, Subquery, Sum
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import relative_time, viewer_time
from conversations.accounts.apps import create_app
from conversations.admin.access import LIST_LIMIT, ReadOnlyAdmin, cost, end_user_named
from conversations.admin.accounts import Erasing, chats_and_usage, count_of, limits_of
from conversations.admin.html import column, link, moment, since
from conversations.api.serializers import MAX_RETAIN_DAYS
from conversations.models import App, Chat, EndUser, Erasure, WebhookEvent, WebhookEventType, WebhookState
from conversations.webhooks import outbox
from conversations.webhooks.addresses import url_problem
from conversations.webhooks.endpoints import events_of, remove_webhook, set_webhook
from memory.admin.filters import AppFilter
from memory.admin.start_page import INPUT, OUTPUT, PERIOD, DayAdmin
from memory.models import AppDay, OwnerMonth
from memory.usage import daily

APP = "app__user"
"""Fetched apart from its rows: with a join, SQLite begins at the few apps, and sorts all rows of one."""
MONTHS = 12
"""The newest months that the usage by person can be filtered by."""
CALLS = ("replies", "folds", INPUT, OUTPUT, cost())


def _of_app(model: str, text: str, app: App) -> SafeString:
    """Link to the rows of an app in a list."""
    return link(text, model, "changelist", app=app.pk)


def _of_owner(model: str, text: str, owner_id: int) -> SafeString:
    return link(text, model, "changelist", owner__id__exact=owner_id)


def _app(row: Any) -> SafeString | str:
    return link(row.app, "conversations_app", "change", row.app_id) if row.app_id else "–"


def _usage(app: App) -> SafeString:
    days = _of_app("memory_appday", "by day", app)
    return format_html("{} · {}", days, _of_app("memory_ownermonth", "by person, the costliest first", app))


class NewApp(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable at run time
    """The name of an app, which is that of its account."""

    name = forms.CharField(help_text="Also the user name of its account, which has no password.")

    class Meta:
        model = App
        fields = ()

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        try:
            User(username=name).full_clean(exclude=["password"])
        except ValidationError as error:
            raise ValidationError(error.messages) from None
        return name


class SetApp(forms.ModelForm):  # type: ignore[type-arg]  # as above
    """What is set of an app."""

    retain_days = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=MAX_RETAIN_DAYS,
        help_text="Days after its last message at which a chat is erased; 0 for never, empty for those of the server.",
    )
    webhook_url = forms.CharField(
        required=False, help_text="An https:// URL at a public address; empty for no webhook."
    )
    webhook_events = forms.MultipleChoiceField(
        choices=[(name, name) for name in WebhookEventType.values],
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    new_secret = forms.BooleanField(
        required=False, help_text="Replace what signs events. The old secret stops to sign at once."
    )

    class Meta:
        model = App
        fields = ("retain_days",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["webhook_url"] = self.instance.webhook_url
        self.initial["webhook_events"] = events_of(self.instance) or WebhookEventType.values

    def clean_webhook_url(self) -> str:
        url: str = self.cleaned_data["webhook_url"]
        problem = url and url_problem(url, allow_private=settings.WEBHOOK_ALLOW_PRIVATE)
        if problem:
            raise ValidationError(problem)
        return url


WEBHOOK = ("webhook_url", "webhook_events", "new_secret")


def _told(app: App) -> SafeString:
    waiting, given_up = outbox.counts(app=app)
    return _of_app("conversations_webhookevent", f"{waiting:,} waiting, {given_up:,} given up", app)


@admin.register(App)
class AppAdmin(ReadOnlyAdmin):
    """Superusers make apps, set how long their chats are kept, and where they are told of events."""

    actions = None

    list_display = (
        column("app", lambda row: row.user),
        column("end users", lambda row: _of_app("conversations_enduser", "end users", row)),
        column("chats", lambda row: _of_app("conversations_chat", "chats", row)),
        *(cost(f"cost, {PERIOD} days"), since("created_at", "created")),
    )
    list_select_related = ("user",)
    readonly_fields = (
        column("account", lambda row: link(row, "auth_user", "change", row.pk)),
        column(
            "end users",
            lambda row: _of_app("conversations_enduser", count_of(row.end_users, "end user,end users"), row),
        ),
        column(
            "chats",
            lambda row: _of_app(
                "conversations_chat", count_of(Chat.objects.filter(app=row), "chat,chats"), row
            ),
        ),
        *(column("usage", _usage), column("webhook events", _told), moment("created_at", "created")),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[App]:
        first = daily.today() - timedelta(days=PERIOD - 1)
        days = AppDay.objects.filter(app=OuterRef("pk"), day__gte=first, priced__gt=0).order_by()
        apps: QuerySet[App] = super().get_queryset(request)
        return apps.annotate(
            cost_usd=Subquery(days.values("app").annotate(sum=Sum("cost_usd")).values("sum"))
        )

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ("name",)
        may_set = self.has_change_permission(request, obj)
        return (*self.readonly_fields, "retain_days", *(WEBHOOK if may_set else ()))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.readonly_fields if obj else ()

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        return super().get_form(request, obj, change, form=SetApp if obj else NewApp, **kwargs)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)

    has_add_permission = has_change_permission

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> App:
        app: App = form.instance
        return app if change else create_app(form.cleaned_data["name"])

    def save_model(self, request: HttpRequest, obj: App, form: Any, change: bool) -> None:
        """Save what is set; a new app is saved with its account."""
        if not change:
            return
        obj.save(update_fields=["retain_days"])
        url, events, new_secret = (form.cleaned_data[name] for name in WEBHOOK)
        if not (url and events):
            remove_webhook(obj)
        elif secret := set_webhook(obj, url, events, new_secret=new_secret):
            self.message_user(request, f"The secret is {secret}. It is shown only now.", messages.WARNING)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """It has nothing else."""


class Person(forms.ModelForm):  # type: ignore[type-arg]  # as above
    """Whether an app may act for a person."""

    is_active = forms.BooleanField(
        label="active",
        required=False,
        help_text="If not, every request for this end user is refused. Their chats are kept.",
    )

    class Meta:
        model = EndUser
        fields = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["is_active"] = self.instance.user.is_active


STATE = column("state", lambda row: "active" if row.user.is_active else "disabled")


@admin.register(EndUser)
class EndUserAdmin(Erasing, ReadOnlyAdmin):
    """People: disabled by those who may change them, erased with all their data by those who may delete them."""

    list_display = (
        *("external_id", column("app", _app)),
        column("chats", lambda row: _of_owner("conversations_chat", "chats", row.pk)),
        *(cost("cost, this month"), STATE),
    )
    list_select_related = ("user",)
    list_filter = (AppFilter,)
    ordering = ("app_id", "external_id")  # along their index
    search_fields = ("pk",)  # only shows the search box: see get_search_results
    search_help_text = "Search by the whole id in the app, or by app/id."
    actions = None
    form = Person
    readonly_fields = (
        *("external_id", column("app", _app)),
        column("chats and usage", lambda row: chats_and_usage(row.user)),
        column("limits", lambda row: limits_of(row.user)),
        column("cost and tokens", lambda row: _of_owner("memory_ownermonth", "by month", row.pk)),
        column("first seen", lambda row: viewer_time(row.user.date_joined)),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[EndUser]:
        months = OwnerMonth.objects.filter(
            owner=OuterRef("pk"), month=daily.today().replace(day=1), priced__gt=0
        )
        people: QuerySet[EndUser] = super().get_queryset(request).prefetch_related(APP)
        return people.annotate(cost_usd=Subquery(months.values("cost_usd")))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[EndUser], search_term: str
    ) -> tuple[QuerySet[EndUser], bool]:
        """Search by `app/id`, and by the id in each app, along the index of both."""
        if not (term := search_term.strip()):
            return queryset, False
        of_all = list(App.objects.values_list("pk", flat=True)[:LIST_LIMIT])
        found = EndUser.objects.filter(app__in=of_all, external_id=term).values_list("pk", flat=True)
        return queryset.filter(pk__in=[*found[:LIST_LIMIT], end_user_named(term) or 0]), False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return (*self.readonly_fields, "is_active" if self.has_change_permission(request, obj) else STATE)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """One who is being erased stays disabled."""
        may = bool(request.user.has_perm("conversations.change_enduser"))
        return may and not (obj and Erasure.objects.filter(pk=obj.pk).exists())

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("conversations.delete_enduser"))

    def save_model(self, request: HttpRequest, obj: EndUser, form: Any, change: bool) -> None:
        User.objects.filter(pk=obj.pk).update(is_active=form.cleaned_data["is_active"])


class StateFilter(admin.SimpleListFilter):
    title = parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in WebhookState.values]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset.filter(state=value) if value in WebhookState.values else queryset


@admin.register(WebhookEvent)
class WebhookEventAdmin(ReadOnlyAdmin):
    """What apps are told, until a week after it was delivered or given up: ids and figures, no text."""

    list_display = (
        *("type", column("app", _app), "state", "attempts", since("created_at", "since"), "error"),
        column("next attempt", lambda row: relative_time(row.not_before) if row.state == "waiting" else "–"),
    )
    list_select_related = ("app__user",)
    list_filter = (AppFilter, StateFilter)
    fields = readonly_fields = (
        *("type", "event_id", column("app", _app), "end_user"),
        column("chat", lambda row: link(row.chat_id, "conversations_chat", "change", row.chat_id)),
        *("figures", "state", "attempts", "error"),
        *(moment("created_at"), moment("not_before", "next attempt"), moment("ended_at")),
    )


# What they cost


class MonthFilter(admin.SimpleListFilter):
    title = parameter_name = "month"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        this = daily.today().year * 12 + daily.today().month - 1
        months = (date(count // 12, count % 12 + 1, 1) for count in range(this, this - MONTHS, -1))
        return [(f"{month}", f"{month:%B %Y}") for month in months]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset.filter(month=value) if value in dict(self.lookup_choices) else queryset


class CallsAdmin(DayAdmin):
    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request).prefetch_related(APP)
        return rows


@admin.register(OwnerMonth)
class OwnerMonthAdmin(CallsAdmin):
    list_display = (
        column("month", lambda row: f"{row.month:%Y-%m}"),
        column("person", lambda row: _of_owner("conversations_chat", row.owner, row.owner_id)),
        *(column("app", _app), *CALLS),
    )
    list_select_related = ("owner",)
    list_filter = (AppFilter, MonthFilter)
    lookups = ("owner__id__exact",)
    ordering = ("-month", "-cost_usd", "-pk")


@admin.register(AppDay)
class AppDayAdmin(CallsAdmin):
    list_display = ("day", column("app", _app), *CALLS)
    list_filter = (AppFilter,)
    ordering = ("-day", "-app_id")
