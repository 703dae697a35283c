"""Users and groups, for superusers: others may look.

Whoever may change users may give themselves any permission, or set a password and read as somebody else.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from chatmemory import db
from conversations import api_tokens, erasing
from conversations.admin_html import link
from conversations.admin_tokens import token_urls

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
        theirs = [erasing.what_is_theirs(user) for user in users]
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
            erasing.request_erasure(user_id)
            db.after_commit(partial(erasing.erase, user_id, seconds=erasing.AT_ONCE_SECONDS))
        text = (
            "Nobody can sign in as them any more. What is theirs goes now; what takes longer, within minutes."
        )
        self.message_user(request, text, messages.WARNING)
