"""A user's API tokens, for staff: seen by those who may see users, revoked by those who may delete tokens.

Tokens themselves are shown nowhere, and none is made here: `manage.py create_token` does that.
"""

from __future__ import annotations

import re
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from conversations.accounts import api_tokens
from conversations.admin.html import admin_url

MAX_SHOWN = 500
"""Newest tokens on the page. All can be revoked, also those that are not shown."""


def token_urls(users: admin.ModelAdmin[Any]) -> list[URLPattern]:
    """The address of the page, for the admin of users."""

    def view(request: HttpRequest, user_id: int) -> HttpResponse:
        return tokens_view(users, request, user_id)

    return [path("<int:user_id>/tokens/", users.admin_site.admin_view(view), name="auth_user_tokens")]


def tokens_view(users: admin.ModelAdmin[Any], request: HttpRequest, user_id: int) -> HttpResponse:
    """The list, with a form that revokes."""
    if not users.has_view_permission(request):
        raise PermissionDenied
    user = get_object_or_404(User, pk=user_id)
    if request.method == "POST":
        if not may_revoke(request, user):
            raise PermissionDenied
        return _revoke(users, request, user)
    tokens = list(api_tokens.valid_tokens(user.pk).order_by("-created")[: MAX_SHOWN + 1])
    context = {
        **users.admin_site.each_context(request),
        "title": f"API tokens of {user.get_username()}",
        "opts": users.opts,
        "owner": user,
        "tokens": [_row(token) for token in tokens[:MAX_SHOWN]],
        "max_shown": MAX_SHOWN if len(tokens) > MAX_SHOWN else None,
        "may_revoke": may_revoke(request, user),
    }
    return TemplateResponse(request, "admin/conversations/tokens.html", context)


def may_revoke(request: HttpRequest, user: User) -> bool:
    """Those with the permission; a superuser's tokens, superusers alone."""
    viewer = request.user
    return viewer.has_perm("knox.delete_authtoken") and (
        bool(getattr(viewer, "is_superuser", False)) or not user.is_superuser
    )


def _row(token: Any) -> dict[str, Any]:
    return {
        "id": api_tokens.id_of(token),
        "prefix": api_tokens.prefix_of(token),
        "created": token.created,
        "expires": token.expiry,
    }


def _revoke(users: admin.ModelAdmin[Any], request: HttpRequest, user: User) -> HttpResponse:
    """Revoke what was chosen: some tokens, or everything that lets the user in."""
    everything = "everything" in request.POST
    chosen = [one for one in request.POST.getlist("token") if re.fullmatch(api_tokens.ID_PATTERN, one)]
    text = f"API tokens revoked: {api_tokens.revoke(user.pk, None if everything else chosen)}"
    if everything:
        text += f", sessions ended: {api_tokens.end_sessions(user.pk)}"
    users.log_change(request, user, f"{text}.")
    users.message_user(request, f"{text}.", messages.SUCCESS)
    return redirect(admin_url("auth_user", "tokens", user.pk))
