"""What users may take of the models, and have taken: a user's own numbers can be set, the rest is read."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from conversations.admin.readonly import FactAdmin
from conversations.models import Allowance

OWN = ("requests_per_minute", "tokens_per_day", "streams", "readers", "resummarize_per_hour")


@admin.register(Allowance)
class AllowanceAdmin(FactAdmin):
    """A row a user. Empty: as the settings say; 0: no limit."""

    list_display = ("user", *OWN, "minute_requests", "day", "day_tokens", "day_reserved", "open_streams")
    list_select_related = ("user",)
    raw_id_fields = ("user",)
    fieldsets: ClassVar[Any] = [
        (
            "May take",
            {
                "fields": ["user", *OWN],
                "description": "Empty: as the settings say. 0: no limit.",
            },
        ),
        (
            "Has taken",
            {"fields": ["minute", "minute_requests", "day", "day_tokens", "day_reserved", "open_streams"]},
        ),
    ]
    search_help_text = "A username."

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        taken = ("minute", "minute_requests", "day", "day_tokens", "day_reserved", "open_streams")
        return taken if obj is None else ("user", *taken)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("conversations.add_allowance"))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("conversations.change_allowance"))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """With its user alone: what is being answered is still to be settled in it."""
        match = request.resolver_match
        return match is not None and match.view_name.startswith("admin:auth_user_")

    def save_model(self, request: HttpRequest, obj: Allowance, form: Any, change: bool) -> None:
        """Only the user's own numbers: the rest may have moved on while this page was open."""
        if not change:
            Allowance.objects.bulk_create([Allowance(user_id=obj.user_id)], ignore_conflicts=True)
        obj.save(update_fields=OWN, force_update=True)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Allowance | None:
        """None also for a number that no column holds: Django looks at that only where a key is no foreign key."""
        try:
            found: Allowance | None = super().get_object(request, object_id, from_field)
        except OverflowError:
            return None
        return found

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Allowance], search_term: str
    ) -> tuple[QuerySet[Allowance], bool]:
        term = search_term.strip()
        users = User.objects.filter(Q(username__iexact=term)).values("pk")
        return (queryset.filter(pk__in=users) if term else queryset), False
