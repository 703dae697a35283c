"""Staff page of a user's API tokens: visible with permission to view users, revocable with that to delete tokens.

A token is shown once, on the page that created it. Its holder reads and writes as its user without an entry in the
audit log. So only superusers create tokens for others; other staff with permission to add tokens create their own.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from conversations.accounts import api_tokens
from conversations.admin.html import admin_url

LIFETIMES = {
    "30": "expires in 30 days",
    "90": "expires in 90 days",
    "365": "expires in a year",
    "0": "never expires",
}
"""Lifetimes offered for a new token, by days; 0 for no expiry."""
MAX_SHOWN = 500
"""Number of newest tokens on the page. All tokens can be revoked, including those not shown."""


def token_urls(users: admin.ModelAdmin[Any]) -> list[URLPattern]:
    """Return the URL of the page, for the admin of users."""

    def view(request: HttpRequest, user_id: int) -> HttpResponse:
        return tokens_view(users, request, user_id)

    return [path("<int:user_id>/tokens/", users.admin_site.admin_view(view), name="auth_user_tokens")]


def tokens_view(users: admin.ModelAdmin[Any], request: HttpRequest, user_id: int) -> HttpResponse:
    """Show the list of tokens; on POST, create or revoke tokens."""
    if not users.has_view_permission(request):
        raise PermissionDenied
    user = get_object_or_404(User, pk=user_id)
    makes, made = "make" in request.POST, ""
    if request.method == "POST":
        if not (may_make if makes else may_revoke)(request, user):
            raise PermissionDenied
        if not makes:
            return _revoke(users, request, user)
        made = _make(users, request, user)
    tokens = list(api_tokens.valid_tokens(user.pk).order_by("-created")[: MAX_SHOWN + 1])
    context = {
        **users.admin_site.each_context(request),
        "title": f"API tokens of {user.get_username()}",
        "trail": [
            ("Home", reverse("admin:index")),
            ("Users", admin_url("auth_user", "changelist")),
            (user.get_username(), admin_url("auth_user", "change", user.pk)),
            ("API tokens", ""),
        ],
        "opts": users.opts,
        "owner": user,
        "tokens": [(api_tokens.id_of(one), api_tokens.prefix_of(one), one) for one in tokens[:MAX_SHOWN]],
        "max_shown": MAX_SHOWN if len(tokens) > MAX_SHOWN else None,
        "may_revoke": may_revoke(request, user),
        "may_make": may_make(request, user),
        "lifetimes": LIFETIMES,
        "made": made,
    }
    return TemplateResponse(request, "admin/conversations/tokens.html", context)


def may_revoke(request: HttpRequest, user: User) -> bool:
    """Whether the requesting user may revoke: with the permission, and a superuser's tokens only as a superuser."""
    viewer = request.user
    return viewer.has_perm("knox.delete_authtoken") and (
        bool(getattr(viewer, "is_superuser", False)) or not user.is_superuser
    )


def may_make(request: HttpRequest, user: User) -> bool:
    """Whether the requesting user may create a token: superusers for active users, others by permission their own."""
    viewer = request.user
    is_own = viewer.pk == user.pk and viewer.has_perm("knox.add_authtoken")
    return user.is_active and (bool(getattr(viewer, "is_superuser", False)) or is_own)


def _make(users: admin.ModelAdmin[Any], request: HttpRequest, user: User) -> str:
    """Create a token and return its text; "" if the lifetime is not offered or the account has changed."""
    chosen = request.POST.get("lifetime", "")
    if chosen not in LIFETIMES:
        users.message_user(request, "Choose when the token expires.", messages.ERROR)
        return ""
    days = int(chosen)
    issued = api_tokens.issue(user, timedelta(days=days) if days else None)
    if issued is None:
        users.message_user(request, "No token was made: the account has just been changed.", messages.ERROR)
        return ""
    token, text = issued
    users.log_change(request, user, f"API token made: {api_tokens.prefix_of(token)}…, {LIFETIMES[chosen]}.")
    return text


def _revoke(users: admin.ModelAdmin[Any], request: HttpRequest, user: User) -> HttpResponse:
    """Revoke the chosen tokens, or all tokens and sessions of the user."""
    everything = "everything" in request.POST
    chosen = [one for one in request.POST.getlist("token") if re.fullmatch(api_tokens.ID_PATTERN, one)]
    text = f"API tokens revoked: {api_tokens.revoke(user.pk, None if everything else chosen)}"
    if everything:
        text += f", sessions ended: {api_tokens.end_sessions(user.pk)}"
    users.log_change(request, user, f"{text}.")
    users.message_user(request, f"{text}.", messages.SUCCESS)
    return redirect(admin_url("auth_user", "tokens", user.pk))
