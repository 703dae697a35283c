"""Staff page of users' limits and usage: a user's own limits can be set, the usage is read-only."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from chatmemory.templatetags.viewing import viewer_time
from conversations.admin.readonly import ReadOnlyAdmin
from conversations.models import Allowance

OWN = ("requests_per_minute", "tokens_per_day", "streams", "readers", "resummarize_per_hour")
USED = ("requests_now", "used_today", "reserved_now", "replies_now")


@admin.register(Allowance)
class AllowanceAdmin(ReadOnlyAdmin):
    """One row per user. An empty limit means that of the settings; 0 means no limit."""

    list_display = ("user", *OWN[:3], "used_today", "replies_now")
    list_select_related = ("user",)
    autocomplete_fields = ("user",)
    fieldsets: ClassVar[Any] = [
        (
            "Limits of this user",
            {
                "fields": ["user", *OWN],
                "description": "Leave empty for the limit in the settings; 0 means no limit. Requests are those that "
                "call a model, streams the replies written at the same time, readers the connections that follow them.",
            },
        ),
        ("Usage", {"fields": USED}),
    ]
    search_help_text = "Search by user name."

    class Media:
        js = ("chatmemory/widget-names.js",)

    @admin.display(description="requests, last minute used")
    def requests_now(self, row: Allowance) -> str:
        return format_html("{} ({})", row.minute_requests, viewer_time(row.minute)) if row.minute else "–"

    @admin.display(description="tokens, last day used")
    def used_today(self, row: Allowance) -> str:
        return f"{row.day_tokens:,} on {row.day}" if row.day else "–"

    @admin.display(description="tokens reserved by running requests")
    def reserved_now(self, row: Allowance) -> str:
        return f"{row.day_reserved:,}"

    @admin.display(description="replies being written", ordering="open_streams")
    def replies_now(self, row: Allowance) -> int:
        return row.open_streams

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return USED if obj is None else ("user", *USED)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("conversations.add_allowance"))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("conversations.change_allowance"))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow it only as part of deleting the user: running calls are still to be settled in this row."""
        match = request.resolver_match
        return match is not None and match.view_name.startswith("admin:auth_user_")

    def save_model(self, request: HttpRequest, obj: Allowance, form: Any, change: bool) -> None:
        """Save only the user's own limits: the usage may have changed while the page was open."""
        if not change:
            Allowance.objects.bulk_create([Allowance(user_id=obj.user_id)], ignore_conflicts=True)
        obj.save(update_fields=OWN, force_update=True)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Allowance | None:
        """Return None also for a number too large for the column, which Django does not catch for a foreign key."""
        try:
            found: Allowance | None = super().get_object(request, object_id, from_field)
        except OverflowError:
            return None
        return found

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Allowance], search_term: str
    ) -> tuple[QuerySet[Allowance], bool]:
        term = search_term.strip()
        users = User.objects.filter(username__iexact=term).values("pk")
        return (queryset.filter(pk__in=users) if term else queryset), False
