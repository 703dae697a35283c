"""Sign-in by what is known here: a password, a second factor, a passkey. Attempts are limited; passwords may be off."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.forms import ReauthenticateForm
from allauth.account.utils import get_next_redirect_url, perform_login
from allauth.core import context
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.core.internal.cryptokit import normalize_user_code
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.base.forms import ReauthenticateForm as CodeAgainForm
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_added, authenticator_removed
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from chatmemory.errors import RateLimited
from conversations.accounts import api_tokens, sign_in_limits

logger = logging.getLogger(__name__)

PROVIDER_SESSION = timedelta(hours=12)
"""How long a session by the provider lasts: who leaves a group there loses it here within that time."""
REMEMBERED = 5
"""Used codes of an app that are remembered: more than are valid at the same time."""


def refused(request: HttpRequest, sentence: str, status: int = 403) -> HttpResponse:
    """The page that says why a sign-in is refused."""
    logger.info("sign-in refused", extra={"reason": sentence})
    told = {"title": "Not signed in", "told": sentence}
    return render(request, "sign_in/refused.html", told, status=status)


def is_the_providers(user: Any) -> bool:
    """Whether this user signs in by the provider only, which thus tells their groups. Superusers are made by hand."""
    known = SocialAccount.objects.filter(user=user.pk, provider=settings.OIDC_ISSUER)
    return bool(settings.OIDC_ISSUER) and not user.is_superuser and known.exists()


def needs_more(user: Any) -> bool:
    """Whether this user's password alone lets nobody in."""
    factors = Authenticator.objects.filter(user=user.pk).exclude(type=Authenticator.Type.RECOVERY_CODES)
    return factors.exists() or is_the_providers(user)


class Accounts(DefaultAccountAdapter):
    """What allauth asks us about accounts."""

    def pre_login(self, request: HttpRequest, user: Any, **login: Any) -> HttpResponse | None:
        if not user.is_active:
            return refused(request, "This account is disabled.")
        if by_provider := _by_provider(login):
            give(user, by_provider.state["groups"])
        elif is_the_providers(user):
            return refused(request, "You sign in by single sign-on only.")
        return None

    def post_login(self, request: HttpRequest, user: Any, **login: Any) -> HttpResponse:
        if _by_provider(login):
            request.session.set_expiry(PROVIDER_SESSION)
        return super().post_login(request, user, **login)

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        methods = super().get_reauthentication_methods(user)
        return [one for one in methods if settings.LOCAL_PASSWORDS or one["id"] != "reauthenticate"]

    def is_reauthentication_required(self, **_: Any) -> bool:
        """Not of those who have nothing to do it by: they came by the provider, and its session is short."""
        return bool(self.get_reauthentication_methods(context.request.user))


def _by_provider(login: dict[str, Any]) -> Any:
    return (login["signal_kwargs"] or {}).get("sociallogin")


def give(user: Any, names: list[str]) -> None:
    """Give a user those of our groups that the provider names, and no others.

    The setting's group makes staff. Superusers are made by hand, and stay staff whatever the provider says.
    """
    user.groups.set(Group.objects.filter(name__in=names))
    if settings.OIDC_STAFF_GROUP and not user.is_superuser:
        user.is_staff = settings.OIDC_STAFF_GROUP in names
        user.save(update_fields=["is_staff"])


@receiver([authenticator_added, authenticator_removed])
def end_other_sessions(request: HttpRequest, user: Any, **_: Any) -> None:
    """They may be of somebody who has what lets nobody in any more, or not what is asked for now (P32)."""
    api_tokens.end_sessions(user.pk, but=request.session.session_key)


class NoPasswords(ModelBackend):
    """Django's own, which accepts no password, wherever it is entered."""

    def authenticate(self, request: HttpRequest | None, **kwargs: Any) -> None:  # type: ignore[override]  # of None
        return None


@contextmanager
def _told_in_form() -> Iterator[None]:
    """Raise what a limit refuses as the error of a form."""
    try:
        yield
    except RateLimited as exc:
        raise ValidationError(f"{exc.message} Try again in {exc.retry_after} seconds.") from exc


class PasswordSignIn(AuthenticationForm):
    """Django's sign-in form, with limited attempts. Whoever needs more than a password is asked for it next."""

    def clean(self) -> dict[str, Any]:
        assert self.request is not None  # the views pass it
        name, address = self.cleaned_data.get("username") or "", self.request.META.get("REMOTE_ADDR", "")
        with _told_in_form(), sign_in_limits.attempt(name, address):
            cleaned = super().clean()
        if (user := self.get_user()) is not None and needs_more(user):
            then = get_next_redirect_url(self.request)
            raise ImmediateHttpResponse(perform_login(self.request, user, redirect_url=then))
        return cleaned


class StaffSignIn(PasswordSignIn, AdminAuthenticationForm):
    """The same for the admin, which lets in staff only."""


class PasswordAgain(ReauthenticateForm):
    """The password before a change of what lets one in."""

    def clean_password(self) -> str:
        address = context.request.META.get("REMOTE_ADDR", "")
        with _told_in_form(), sign_in_limits.attempt(self.user.get_username(), address):
            return str(super().clean_password())


class OnceCode:
    """Check a code of an app, or a recovery code. Each is accepted once, and counted, in all processes together."""

    user: Any
    authenticator: Authenticator

    def clean_code(self) -> str:
        with _told_in_form(), sign_in_limits.code_attempt(self.user.pk), transaction.atomic():
            list(Authenticator.objects.select_for_update().filter(user=self.user))
            code = normalize_user_code(super().clean_code())  # type: ignore[misc]  # of the form beside it
            if (
                self.authenticator.type == Authenticator.Type.TOTP
            ):  # which allauth remembers in this process only
                used = self.authenticator.data.get("used", [])
                if code in used:
                    raise ValidationError("This code was already used. Wait for the next one.")
                self.authenticator.data["used"] = [*used, code][-REMEMBERED:]
                self.authenticator.save(update_fields=["data"])
            return code


class SignInCode(OnceCode, AuthenticateForm):
    """The code after the password."""


class CodeAgain(OnceCode, CodeAgainForm):
    """The code before such a change."""
