"""Sign-in with a password, a second factor, a passkey. Attempts are limited; passwords may be off."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import get_authentication_records, record_authentication
from allauth.account.utils import get_next_redirect_url, perform_login
from allauth.core import context
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.core.internal.cryptokit import normalize_user_code
from allauth.mfa.base.forms import ReauthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_added, authenticator_removed
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.admin.forms import AdminAuthenticationForm, AdminPasswordChangeForm
from django.contrib.auth import logout
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.signals import user_logged_in
from django.core.exceptions import ValidationError
from django.db import transaction
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from chatmemory.errors import RateLimited
from conversations.accounts import api_tokens, sign_in_limits

logger = logging.getLogger(__name__)

REMEMBERED = 5
"""Used codes of an app that are remembered: more than are valid at the same time."""


def refuse(request: HttpRequest, sentence: str, status: int = 403) -> NoReturn:
    """Answer with the page that says why a sign-in is refused."""
    logger.info("sign-in refused", extra={"reason": sentence})
    told = {"title": "Not signed in", "told": sentence}
    raise ImmediateHttpResponse(render(request, "sign_in/refused.html", told, status=status))


def is_the_providers(user: Any) -> bool:
    """Whether this user signs in only by a provider, which then decides their groups. Superusers are made by hand.

    This holds after a change of the provider, too, which may not know them: a superuser then deletes their identity.
    """
    known = SocialAccount.objects.filter(user=user.pk)
    return bool(settings.OIDC_ISSUER) and not user.is_superuser and known.exists()


def needs_more(user: Any) -> bool:
    """Whether this user needs more than a password to sign in."""
    factors = Authenticator.objects.filter(user=user.pk).exclude(type=Authenticator.Type.RECOVERY_CODES)
    return factors.exists() or is_the_providers(user)


@contextmanager
def _limit_as_form_error() -> Iterator[None]:
    """Turn the refusal of a limit into an error of a form."""
    try:
        yield
    except RateLimited as exc:
        raise ValidationError(f"{exc.message} Try again in {exc.retry_after} seconds.") from exc


class Accounts(DefaultAccountAdapter):
    def pre_login(self, request: HttpRequest, user: Any, **login: Any) -> HttpResponse | None:
        if is_the_providers(user) and not login["signal_kwargs"]:  # which the provider's sign-in has
            refuse(request, "You sign in by single sign-on only.")
        return super().pre_login(request, user, **login)

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        refuse(request, "This account is disabled.")

    def reauthenticate(self, user: Any, password: str) -> bool:
        """Check the password before a change of passwords or factors."""
        address = context.request.META.get("REMOTE_ADDR", "")
        with _limit_as_form_error(), sign_in_limits.attempt(user.get_username(), address):
            if not super().reauthenticate(user, password):
                raise self.validation_error("incorrect_password")
        return True

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        methods = super().get_reauthentication_methods(user)
        return [one for one in methods if settings.LOCAL_PASSWORDS or one["id"] != "reauthenticate"]

    def is_reauthentication_required(self, **_: Any) -> bool:
        """Users without a password or factor cannot reauthenticate: the provider gave them a short session."""
        return bool(self.get_reauthentication_methods(context.request.user))


@receiver(user_logged_in)
def confirm_by_sign_in(request: HttpRequest, user: Any, **_: Any) -> None:
    """Let a password or factor given at sign-in confirm changes, as allauth does not. A provider's sign-in does not."""
    methods = [one["method"] for one in get_authentication_records(request, user)] or ["password"]
    if methods[-1] != "socialaccount":
        record_authentication(request, user, methods[-1], reauthenticated=True)


@receiver([authenticator_added, authenticator_removed])
def end_other_sessions(request: HttpRequest, user: Any, **_: Any) -> None:
    """Sessions begun before the change lacked the new factor, or used one that no longer exists (P32)."""
    api_tokens.end_sessions(user.pk, but=request.session.session_key)


class NoPasswords(ModelBackend):
    """Django's own, which accepts no password, wherever it is entered."""

    def authenticate(self, request: HttpRequest | None, **kwargs: Any) -> None:  # type: ignore[override]  # of None
        return None


class PasswordSignIn(AuthenticationForm):
    """Django's sign-in form, with limited attempts. Users with a second factor are asked for it next."""

    def clean(self) -> dict[str, Any]:
        assert self.request is not None  # the views pass it
        name, address = self.cleaned_data.get("username") or "", self.request.META.get("REMOTE_ADDR", "")
        with _limit_as_form_error(), sign_in_limits.attempt(name, address):
            cleaned = super().clean()
        if (user := self.get_user()) is not None and needs_more(user):
            then = get_next_redirect_url(self.request)
            logout(self.request)  # drop a session of another user: allauth would skip the second factor
            raise ImmediateHttpResponse(perform_login(self.request, user, redirect_url=then))
        return cleaned


class StaffSignIn(PasswordSignIn, AdminAuthenticationForm):
    """The same for the admin, which lets in staff only."""


class ChangePassword(AdminPasswordChangeForm):
    """Django's form for one's own password, with limited guesses of the old one."""

    def clean_old_password(self) -> str:
        old = str(self.cleaned_data["old_password"])
        Accounts().reauthenticate(self.user, old)
        return old


class OnceCode(ReauthenticateForm):
    """Check a code of an app, or a recovery code. Each is accepted once, and counted, in all processes together.

    At a sign-in as well: a user who has just given both may then change passwords and factors.
    """

    def clean_code(self) -> str:
        with _limit_as_form_error(), sign_in_limits.code_attempt(self.user.pk), transaction.atomic():
            list(Authenticator.objects.select_for_update().filter(user=self.user))
            code, kept = normalize_user_code(super().clean_code()), self.authenticator
            if kept.type == Authenticator.Type.TOTP:  # whose codes allauth remembers in this process only
                used = kept.data.get("used", [])
                if code in used:
                    raise ValidationError("This code was already used. Wait for the next one.")
                kept.data["used"] = [*used, code][-REMEMBERED:]
                kept.save(update_fields=["data"])
            return code
