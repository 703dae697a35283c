"""Staff pages of accounts: users and groups, their API tokens, their limits and usage; and the limited sign-in.

Only superusers change users: other staff could grant themselves any permission, or set a password and read as
another user. A token is shown once, on the page that created it. Its holder reads and writes as its user without an
entry in the audit log. So only superusers create tokens for others; other staff with permission to add tokens create
their own. A user's own limits can be set, the usage is read-only.
"""

import re
from datetime import UTC, timedelta
from functools import partial
from typing import Any, ClassVar

from allauth.idp.oidc.models import Token as AgentToken
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.contrib.auth.views import PasswordChangeView
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chatmemory.templatetags.viewing import viewer_time
from conversations import account_deletion
from conversations.accounts import api_tokens
from conversations.accounts.models import TOKEN_NAME_CHARS, Allowance, Scope
from conversations.admin.access import LIST_LIMIT, BoundedPaginator, ReadOnlyAdmin, signed_in
from conversations.admin.html import admin_url, column, link, moment
from conversations.sign_in.password import ChangePassword, StaffSignIn
from memory.usage.figures import counted

admin.site.unregister([User, Group, SocialAccount, Authenticator, AgentToken])


class BySuperusers(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """Only superusers may add, change and delete."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)

    has_add_permission = has_delete_permission = has_change_permission


@admin.register(Group)
class SuperuserGroupAdmin(BySuperusers, GroupAdmin):
    pass


@admin.register(SocialAccount)
class IdentityAdmin(BySuperusers):
    """Which accounts the OpenID provider's users have here. Only a superuser gives an identity to another account."""

    list_display = ("user", "provider", "uid", "last_login")
    fields = ("user", "provider", "uid")
    raw_id_fields = ("user",)
    list_select_related = ("user",)

    def save_model(self, request: HttpRequest, obj: SocialAccount, form: Any, change: bool) -> None:
        """End the sessions of its new account, whose user from now on signs in by the provider alone, for 12 hours."""
        super().save_model(request, obj, form, change)
        api_tokens.end_sessions(obj.user_id, but=request.session.session_key)


@admin.register(Authenticator)
class SecondFactorAdmin(BySuperusers):
    """Second factors, without their secrets. A superuser removes one whose owner has lost it."""

    list_display = fields = readonly_fields = ("user", "type", "created_at", "last_used_at")
    list_select_related = ("user",)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


LIFETIMES = {
    "30": "expires in 30 days",
    "90": "expires in 90 days",
    "365": "expires in a year",
    "0": "never expires",
}
"""Lifetimes offered for a new token, by days; 0 for no expiry."""
USES: dict[str, str] = {
    Scope.ACT_FOR_USERS: "reads and writes, also for the app's end users",
    f"{Scope.ACT_FOR_USERS} {Scope.REMEMBER_NAMED}": "reads and writes, also for the app's end users, remembers named "
    "chats even with store: false",
    f"{Scope.ACT_FOR_USERS} {Scope.READ_ONLY}": "only reads, also for the app's end users",
    Scope.CHAT: "reads and writes chats",
    f"{Scope.CHAT} {Scope.REMEMBER_NAMED}": "reads and writes chats, remembers named ones even with store: false",
    Scope.READ_ONLY: "only reads",
}
"""Scopes offered for a new token; those with `act-for-users` only for an app's."""
MAX_SHOWN = 500
"""Number of newest tokens on the page. All tokens can be revoked, including those not shown."""


def app_of(user: User) -> SafeString | str:
    """Link to the app whose account a user is."""
    return link("app", "conversations_app", "change", user.pk) if hasattr(user, "app") else "–"


def _uses_of(user: User) -> dict[str, str]:
    is_app = hasattr(user, "app")
    return {name: words for name, words in USES.items() if is_app or Scope.ACT_FOR_USERS not in name}


MOMENTS = (moment("last_login"), moment("date_joined"))
"""Read-only times of an account."""


def chats_and_usage(user: User) -> SafeString:
    """Link to the chats, with today's usage as the limits count it; a count of an earlier day is shown as 0."""
    row = Allowance.objects.filter(pk=user.pk).first() or Allowance()
    tokens = row.day_tokens if row.day == timezone.now().astimezone(UTC).date() else 0
    text = count_of(user.chats)
    return format_html(
        "{} · {} today · {} being written · {}",
        link(text, "conversations_chat", "changelist", owner__id__exact=user.pk),
        counted(tokens, "token"),
        counted(row.open_streams, "reply", "replies"),
        link("Export data", "conversations_chat", "export", user.pk),
    )


def count_of(rows: Any) -> str:
    """How many rows a manager or a query has, counted as far as a list pages through them."""
    count, names = rows.all()[:LIST_LIMIT].count(), rows.model._meta
    more = " or more" if count == LIST_LIMIT else ""
    return f"{count:,}{more} {names.verbose_name if count == 1 else names.verbose_name_plural}"


def limits_of(user: User) -> SafeString:
    """Link to the user's own limits, or to setting them."""
    if Allowance.objects.filter(pk=user.pk).exists():
        return link("own limits", "conversations_allowance", "change", user.pk)
    return link("limits as in the settings: set their own", "conversations_allowance", "add", user=user.pk)


class Erasing(admin.ModelAdmin):  # type: ignore[type-arg]  # as above
    """Rows whose key is a user's: deleting one erases the user with all their data."""

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Return what will be deleted as counts: Django's default would load every message (16 s for 100,000)."""
        rows = list(objs)
        theirs = [account_deletion.chat_and_message_counts(User(pk=row.pk)) for row in rows]
        counts = {
            "users": len(rows),
            "chats": sum(chats for chats, _ in theirs),
            "messages": sum(messages for _, messages in theirs),
        }
        return [str(row) for row in rows], counts, set(), []

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self._erase(request, [obj.pk])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._erase(request, list(queryset.values_list("pk", flat=True)))

    def _erase(self, request: HttpRequest, user_ids: list[int]) -> None:
        """Disable these users now, and delete their chats after the commit: admin views run in a transaction."""
        for user_id in user_ids:
            account_deletion.request_erasure(user_id)
            transaction.on_commit(partial(account_deletion.erase_after_commit, user_id))
        text = "This user can no longer sign in. Their data will be deleted within minutes."
        self.message_user(request, text, messages.WARNING)


@admin.register(User)
class SuperuserUserAdmin(BySuperusers, Erasing, UserAdmin):  # type: ignore[type-arg]  # as above
    """Django's page of users, with their chats, limits and API tokens. End users of apps have pages of their own."""

    list_display = ("username", "email", "first_name", "last_name", "is_staff", column("app", app_of))
    list_select_related = ("app",)
    paginator = BoundedPaginator
    show_full_result_count = False
    fieldsets: ClassVar[Any] = (
        ("chatmemory", {"fields": ("chats", "access")}),
        *(one for one in UserAdmin.fieldsets or () if "last_login" not in one[1]["fields"]),
        ("Important dates", {"fields": MOMENTS}),
    )
    readonly_fields = ("chats", "access", *MOMENTS)

    class Media:
        js = ("chatmemory/widget-names.js",)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.tokens_view)
        return [path("<int:user_id>/tokens/", view, name="auth_user_tokens"), *super().get_urls()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        users: QuerySet[User] = super().get_queryset(request)
        return users.filter(end_user=None)

    @admin.display(description="chats and usage")
    def chats(self, user: User) -> SafeString:
        return chats_and_usage(user)

    @admin.display(description="API tokens, limits, audit log")
    def access(self, user: User) -> SafeString:
        valid = counted(api_tokens.valid_tokens(user.pk).count(), "valid API token")
        looks = link("what they read as staff", "conversations_contentview", "changelist", q=user.username)
        return format_html("{} · {} · {}", link(valid, "auth_user", "tokens", user.pk), limits_of(user), looks)

    # API tokens

    def tokens_view(self, request: HttpRequest, user_id: int) -> HttpResponse:
        """Show the list of tokens; on POST, make or revoke tokens.

        With the permission, staff make tokens for themselves, superusers for any active user; and staff revoke, a
        superuser's tokens only as a superuser.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        user, viewer = get_object_or_404(self.get_queryset(request), pk=user_id), signed_in(request)
        is_own = viewer.pk == user.pk and viewer.has_perm("knox.add_authtoken")
        may_make = user.is_active and (viewer.is_superuser or is_own)
        revokes = viewer.has_perm("knox.delete_authtoken")
        may_revoke = revokes and (viewer.is_superuser or not user.is_superuser)
        new_token = ""
        if request.method == "POST":
            makes = "make" in request.POST
            if not (may_make if makes else may_revoke):
                raise PermissionDenied
            if not makes:
                return self._revoke(request, user)
            new_token = self._make(request, user)
        tokens = list(api_tokens.valid_tokens(user.pk).order_by("-created")[: MAX_SHOWN + 1])
        context = {
            **self.admin_site.each_context(request),
            "title": f"API tokens of {user.get_username()}",
            "opts": self.opts,
            "owner": user,
            "tokens": [
                (api_tokens.id_of(one), api_tokens.prefix_of(one), one, ", ".join(api_tokens.scopes_of(one)))
                for one in tokens[:MAX_SHOWN]
            ],
            "max_shown": MAX_SHOWN if len(tokens) > MAX_SHOWN else None,
            "may_revoke": may_revoke,
            "may_make": may_make,
            "lifetimes": LIFETIMES,
            "max_name_chars": TOKEN_NAME_CHARS,
            "uses": _uses_of(user),
            "new_token": new_token,
        }
        return TemplateResponse(request, "admin/conversations/tokens.html", context)

    def _make(self, request: HttpRequest, user: User) -> str:
        """Make a token and return its text."""
        chosen, scopes = request.POST.get("lifetime", ""), request.POST.get("scopes", "")
        if chosen not in LIFETIMES or scopes not in _uses_of(user):
            raise PermissionDenied
        name = request.POST.get("name", "").replace("\0", "").strip()[:TOKEN_NAME_CHARS]
        issued = api_tokens.issue(user, timedelta(days=int(chosen)) or None, name, scopes.split())
        if issued is None:  # the account has just been changed
            raise PermissionDenied
        token, text = issued
        message = f"API token made: {api_tokens.prefix_of(token)}…, {scopes}, {LIFETIMES[chosen]}."
        self.log_change(request, user, message)
        return text

    def _revoke(self, request: HttpRequest, user: User) -> HttpResponse:
        """Revoke the chosen tokens, or all tokens and sessions of the user."""
        everything = "everything" in request.POST
        chosen = [one for one in request.POST.getlist("token") if re.fullmatch(api_tokens.ID_PATTERN, one)]
        text = f"API tokens revoked: {api_tokens.revoke(user.pk, None if everything else chosen)}"
        if everything:
            text += f", sessions ended: {api_tokens.end_sessions(user.pk)}"
        self.log_change(request, user, f"{text}.")
        self.message_user(request, f"{text}.", messages.SUCCESS)
        return redirect(admin_url("auth_user", "tokens", user.pk))


admin.site.login_form = StaffSignIn


def change_password(request: HttpRequest) -> Any:
    """The admin's page for one's own password, with our form, which its site does not let us choose."""
    context, done = admin.site.each_context(request), reverse("admin:password_change_done")
    view = PasswordChangeView.as_view(form_class=ChangePassword, success_url=done, extra_context=context)
    return view(request)


OWN = ("requests_per_minute", "tokens_per_day", "streams", "readers", "resummarize_per_hour")
USED_TODAY = column("tokens, last day used", lambda row: f"{row.day_tokens:,} on {row.day}" if row.day else "–")
USED = (
    column(
        "requests, last minute used",
        lambda row: format_html("{} ({})", row.minute_requests, viewer_time(row.minute)) if row.minute else "–",
    ),
    USED_TODAY,
    column("tokens reserved by running requests", lambda row: f"{row.day_reserved:,}"),
    column("replies being written", lambda row: row.open_streams),
)


@admin.register(Allowance)
class AllowanceAdmin(ReadOnlyAdmin):
    """One row per user. An empty limit means that of the settings; 0 means no limit."""

    list_display = ("user", *OWN[:3], USED_TODAY, USED[-1])
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
    search_fields = ("=user__username",)
    search_help_text = "Search by user name."
    has_change_permission = admin.ModelAdmin.has_change_permission

    class Media:
        js = ("chatmemory/widget-names.js",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[Any, ...]:
        return USED if obj is None else ("user", *USED)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return admin.ModelAdmin.has_add_permission(self, request)

    def save_model(self, request: HttpRequest, obj: Allowance, form: Any, change: bool) -> None:
        """Save only the user's own limits: the usage may have changed while the page was open."""
        if not change:
            Allowance.objects.bulk_create([Allowance(user_id=obj.user_id)], ignore_conflicts=True)
        obj.save(update_fields=OWN, force_update=True)
