"""Users and groups, for superusers: others may look. And signing in to the admin, limited as it is for the API.

Whoever may change users may give themselves any permission, or set a password and read as somebody else.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from chatmemory.database import executors
from chatmemory.errors import RateLimited
from conversations import erasure
from conversations.accounts import api_tokens, sign_in_limits
from conversations.admin.html import link
from conversations.admin.tokens import token_urls

admin.site.unregister([User, Group])


class _BySuperusers(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """Only superusers add, change and delete."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_add_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_add_permission(request)


@admin.register(Group)
class RightsAdmin(_BySuperusers, GroupAdmin):
    pass


@admin.register(User)
class OwnerAdmin(_BySuperusers, UserAdmin):  # type: ignore[type-arg]  # as above
    """Users, as Django has them; but deleting one erases all that is theirs, through the service."""

    fieldsets: ClassVar[Any] = (*(UserAdmin.fieldsets or ()), ("API", {"fields": ("tokens",)}))
    readonly_fields = ("tokens",)

    def get_urls(self) -> list[Any]:
        return [*token_urls(self), *super().get_urls()]

    @admin.display(description="tokens")
    def tokens(self, user: User) -> SafeString:
        return link(f"{api_tokens.valid_tokens(user.pk).count()} valid", "auth_user", "tokens", user.pk)

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """What will go, in numbers. Django's own way would load all they ever said (16 s for 100,000 messages)."""
        users = list(objs)
        theirs = [erasure.what_is_theirs(user) for user in users]
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
        """End all that these users can do. Their chats go after the commit: page and list have a transaction open."""
        for user_id in user_ids:
            erasure.request_erasure(user_id)
            executors.after_commit(partial(erasure.erase, user_id, seconds=erasure.AT_ONCE_SECONDS))
        text = (
            "Nobody can sign in as them any more. What is theirs goes now; what takes longer, within minutes."
        )
        self.message_user(request, text, messages.WARNING)


class LimitedSignIn(AdminAuthenticationForm):
    """Django's form, behind the limit."""

    def clean(self) -> dict[str, Any]:
        assert self.request is not None  # the login page gives it
        try:
            taken = sign_in_limits.take(
                self.cleaned_data.get("username") or "", self.request.META.get("REMOTE_ADDR", "")
            )
        except RateLimited as exc:
            raise ValidationError(f"{exc.message} Try again in {exc.retry_after} seconds.") from exc
        cleaned = super().clean()
        sign_in_limits.give_back(taken)
        return cleaned


admin.site.login_form = LimitedSignIn
