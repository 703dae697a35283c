"""Sign-in by name and password: limited, with a second factor for those who have one; or switched off."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from allauth.account.utils import get_next_redirect_url, perform_login
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from chatmemory.errors import RateLimited
from conversations.accounts import sign_in_limits


class NoPasswords(ModelBackend):
    """Django's own, which accepts no password, wherever it is entered."""

    def authenticate(self, request: HttpRequest | None, **kwargs: Any) -> None:  # type: ignore[override]  # of None
        return None


@contextmanager
def told_in_form() -> Iterator[None]:
    """Raise what a limit refuses as the error of a form."""
    try:
        yield
    except RateLimited as exc:
        raise ValidationError(f"{exc.message} Try again in {exc.retry_after} seconds.") from exc


def has_second_factor(user: Any) -> bool:
    return Authenticator.objects.filter(user=user.pk).exists()


class PasswordSignIn(AuthenticationForm):
    """Django's sign-in form, with limited attempts. Whoever has a second factor is asked for it next."""

    def clean(self) -> dict[str, Any]:
        assert self.request is not None  # the views pass it
        if not settings.LOCAL_PASSWORDS:
            raise ValidationError("Passwords are switched off.")
        name, address = self.cleaned_data.get("username") or "", self.request.META.get("REMOTE_ADDR", "")
        with told_in_form(), sign_in_limits.attempt(name, address):
            cleaned = super().clean()
        if (user := self.get_user()) is not None and has_second_factor(user):
            then = get_next_redirect_url(self.request)
            raise ImmediateHttpResponse(perform_login(self.request, user, redirect_url=then))
        return cleaned


class StaffSignIn(PasswordSignIn, AdminAuthenticationForm):
    """The same for the admin, which lets in staff only."""
