"""Signing in to the admin: limited as it is for the API."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.forms import AdminAuthenticationForm
from django.core.exceptions import ValidationError

from chatmemory.errors import RateLimited
from conversations import signing_in


class LimitedSignIn(AdminAuthenticationForm):
    """Django's form, behind the limit."""

    def clean(self) -> dict[str, Any]:
        assert self.request is not None  # the login page gives it
        try:
            taken = signing_in.take(
                self.cleaned_data.get("username") or "", self.request.META.get("REMOTE_ADDR", "")
            )
        except RateLimited as exc:
            raise ValidationError(f"{exc.message} Try again in {exc.retry_after} seconds.") from exc
        cleaned = super().clean()
        signing_in.give_back(taken)
        return cleaned


admin.site.login_form = LimitedSignIn
