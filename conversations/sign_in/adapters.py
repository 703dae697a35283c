"""What allauth asks us: who may sign in, as whom, and with which groups.

An account is found by issuer and subject alone. Names and addresses in claims are often chosen by the user, so they
lead to no existing account: one with a taken name gets another. Only a superuser gives an identity to another account
(the admin's page of identities).
"""

from typing import Any, cast

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from requests import RequestException

from conversations.sign_in.oidc import NO_ANSWER, Refused
from conversations.sign_in.refusal import refused

SESSION_SECONDS = 12 * 60 * 60
"""How long a session by the identity provider lasts: who leaves a group there loses it here within that time."""


class Accounts(DefaultAccountAdapter):
    """Local accounts, which only staff and the identity provider make."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        return refused(request, "This account is disabled.")

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        methods = super().get_reauthentication_methods(user)
        return [one for one in methods if settings.LOCAL_PASSWORDS or one["id"] != "reauthenticate"]

    def post_login(self, request: HttpRequest, user: Any, **login: Any) -> HttpResponse:
        if "sociallogin" in (login["signal_kwargs"] or {}):
            request.session.set_expiry(SESSION_SECONDS)
        return super().post_login(request, user, **login)


class Identities(DefaultSocialAccountAdapter):
    """Identities of the OpenID provider."""

    def list_apps(self, request: HttpRequest, provider: Any = None, client_id: Any = None) -> list[SocialApp]:
        return [
            SocialApp(
                provider="openid_connect",
                provider_id=settings.OIDC_ISSUER,
                name="single sign-on",
                client_id=settings.OIDC_CLIENT_ID,
                secret=settings.OIDC_CLIENT_SECRET,
                settings={"server_url": settings.OIDC_ISSUER.rstrip("/")},
            )
        ]

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return True

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Any = None,
        extra_context: Any = None,
    ) -> None:
        if isinstance(exception, Refused):
            raise ImmediateHttpResponse(refused(request, str(exception)))
        if isinstance(exception, RequestException):
            raise ImmediateHttpResponse(refused(request, NO_ANSWER, 502))
        told = "The identity provider refused the sign-in."
        if error == AuthError.CANCELLED:
            told = "The sign-in was cancelled at the identity provider."
        elif "state_id" in (extra_context or {}):
            told = "This sign-in was already used, or not begun in this browser in the last 10 minutes. Sign in again."
        raise ImmediateHttpResponse(refused(request, told))

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        required, groups = settings.OIDC_REQUIRED_GROUP, sociallogin.account.extra_data["groups"]
        if required and required not in groups:
            told = "Your account at the identity provider is not in the group that may use this server."
            raise ImmediateHttpResponse(refused(request, told))
        if sociallogin.is_existing:
            give(cast(User, sociallogin.user), groups)

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> Any:
        """Make the account of somebody who signs in for the first time, without a password."""
        user, account = cast(User, sociallogin.user), sociallogin.account
        try:
            with transaction.atomic():
                Accounts(request).populate_username(request, user)
                user.save()
                account.user = user
                account.save()
                give(user, account.extra_data["groups"])
        except IntegrityError as exc:  # another sign-in of theirs, or somebody of the same name, was first
            raise ImmediateHttpResponse(
                refused(request, "Your account was just made. Sign in again.")
            ) from exc
        return user


def give(user: User, names: list[str]) -> None:
    """Give a user those of our groups that the provider names, and no others.

    The setting's group makes staff. Superusers are made by hand, and stay staff whatever the provider says.
    """
    with transaction.atomic():
        user.groups.set(Group.objects.filter(name__in=names))
        if settings.OIDC_STAFF_GROUP and not user.is_superuser:
            user.is_staff = settings.OIDC_STAFF_GROUP in names
            user.save(update_fields=["is_staff"])
