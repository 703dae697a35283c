"""Staff pages of users and groups, which only superusers may change; and the admin's sign-in, limited like the API's.

Anybody who may change users could grant themselves any permission, or set a password and read as another user.
"""

from __future__ import annotations

from datetime import UTC
from functools import partial
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.database import executors
from chatmemory.errors import RateLimited
from conversations import account_deletion
from conversations.accounts import api_tokens, sign_in_limits
from conversations.admin.html import link, moment
from conversations.admin.readonly import LIST_LIMIT
from conversations.admin.tokens import token_urls
from conversations.models import Allowance

admin.site.unregister([User, Group])


class _BySuperusers(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """Only superusers may add, change and delete."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_add_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_add_permission(request)


@admin.register(Group)
class SuperuserGroupAdmin(_BySuperusers, GroupAdmin):
    pass


MOMENTS = tuple(moment(name) for name in ("last_login", "date_joined"))
"""Read-only times of an account."""


@admin.register(User)
class SuperuserUserAdmin(_BySuperusers, UserAdmin):  # type: ignore[type-arg]  # as above
    """Django's page of users, except that deleting a user erases all their data through `erasure`."""

    fieldsets: ClassVar[Any] = (
        ("chatmemory", {"fields": ("chats", "access")}),
        *(one for one in UserAdmin.fieldsets or () if "last_login" not in one[1]["fields"]),
        ("Important dates", {"fields": MOMENTS}),
    )

    class Media:
        js = ("chatmemory/widget-names.js",)

    readonly_fields = ("chats", "access", *MOMENTS)

    def get_urls(self) -> list[Any]:
        return [*token_urls(self), *super().get_urls()]

    @admin.display(description="chats and usage")
    def chats(self, user: User) -> SafeString:
        """Link to the chats, with today's usage as the limits count it; a count of an earlier day is shown as 0."""
        count = user.chats.all()[:LIST_LIMIT].count()
        more = " or more" if count == LIST_LIMIT else ""
        text = f"{count:,}{more} chat{'' if count == 1 else 's'}"
        row = Allowance.objects.filter(pk=user.pk).first()
        today = row is not None and row.day == timezone.now().astimezone(UTC).date()
        tokens = row.day_tokens if row is not None and today else 0
        streams = row.open_streams if row is not None else 0
        return format_html(
            "{} · {} tokens today · {} being written",
            link(text, "conversations_chat", "changelist", owner=user.pk),
            f"{tokens:,}",
            f"{streams} repl{'y' if streams == 1 else 'ies'}",
        )

    @admin.display(description="API tokens, limits, audit log")
    def access(self, user: User) -> SafeString:
        has_own = Allowance.objects.filter(pk=user.pk).exists()
        return format_html(
            "{} · {} · {}",
            link(
                f"{api_tokens.valid_tokens(user.pk).count()} valid API tokens", "auth_user", "tokens", user.pk
            ),
            link("own limits", "conversations_allowance", "change", user.pk)
            if has_own
            else link(
                "limits as in the settings: set their own", "conversations_allowance", "add", user=user.pk
            ),
            link("what they read as staff", "conversations_contentview", "changelist", q=user.username),
        )

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Return what will be deleted as counts: Django's default would load every message (16 s for 100,000)."""
        users = list(objs)
        theirs = [account_deletion.chat_and_message_counts(user) for user in users]
        counts = {
            "users": len(users),
            "chats": sum(chats for chats, _ in theirs),
            "messages": sum(messages for _, messages in theirs),
        }
        return [str(user) for user in users], counts, set(), []

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        self._erase(request, [obj.pk])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        self._erase(request, list(queryset.values_list("pk", flat=True)))

    def _erase(self, request: HttpRequest, user_ids: list[int]) -> None:
        """Disable these users now, and delete their chats after the commit: admin views run in a transaction."""
        for user_id in user_ids:
            account_deletion.request_erasure(user_id)
            executors.after_commit(
                partial(account_deletion.erase, user_id, seconds=account_deletion.AT_ONCE_SECONDS)
            )
        text = "Nobody can sign in as this user any more. Their data will be deleted within minutes."
        self.message_user(request, text, messages.WARNING)


class LimitedSignIn(AdminAuthenticationForm):
    """Django's sign-in form, with limited attempts."""

    def clean(self) -> dict[str, Any]:
        assert self.request is not None  # the login view passes it
        try:
            taken = sign_in_limits.count_attempt(
                self.cleaned_data.get("username") or "", self.request.META.get("REMOTE_ADDR", "")
            )
        except RateLimited as exc:
            raise ValidationError(f"{exc.message} Try again in {exc.retry_after} seconds.") from exc
        cleaned = super().clean()
        sign_in_limits.uncount_attempt(taken)
        return cleaned


admin.site.login_form = LimitedSignIn
