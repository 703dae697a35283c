"""Sign-in by OpenID Connect. allauth redirects there and stores the identity; this module checks the response.

allauth reads an ID token without checking its signature where it fetched it over TLS, and prefers what another
endpoint says of the user. Here each token needs a signature by a published key of the issuer, and only what it says
counts. It is bound to the browser that began the sign-in by PKCE and a nonce.

An account is found by issuer and subject alone: users often choose the names and addresses in claims themselves.
"""

import logging
import secrets
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import jwt
from allauth.account.adapter import get_adapter as accounts
from allauth.account.utils import get_next_redirect_url
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.helpers import complete_social_login
from allauth.socialaccount.internal import statekit
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ImproperlyConfigured
from django.db import DataError, IntegrityError, close_old_connections, transaction
from django.http import Http404, HttpRequest
from django.views.decorators.http import require_safe
from requests import RequestException, Response, Session
from urllib3.exceptions import HTTPError

from chatmemory.text.cleaning import normalized
from conversations.sign_in.password import refuse

logger = logging.getLogger(__name__)

PROVIDER = "oidc"
"""allauth's name for the provider, in the callback's address."""
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures by a key pair. `none` and shared secrets are not among them."""
CLOCK_SECONDS = 60
"""By how much the clocks of the provider and of this server may differ."""
ANSWER_MAX_BYTES = 1024 * 1024
ANSWER_SECONDS = 5.0
"""How large an answer of the provider may be, and how long it may take."""
LASTS = timedelta(hours=12)
"""How long a session by the provider is valid: who leaves a group there loses it here within that time."""
FAILURES = OAuth2Error, AttributeError, LookupError, TypeError, ValueError, HTTPError, OSError
"""Exceptions if the provider refuses, does not answer, or answers something else."""
UNSTORABLE = ImproperlyConfigured, DataError, IntegrityError
"""Exceptions if the user's id or names do not fit, or another sign-in of theirs was first."""
REFUSED = "The identity provider refused the sign-in, or does not answer as expected. Try again in a moment."
STALE = "This sign-in was already used, or not begun in this browser in the last 10 minutes. Sign in again."


class ProviderSession(Session):
    """Calls of the provider: bounded, to nowhere else, over TLS if the issuer is, without a database connection."""

    def request(self, method: Any, url: Any, *args: Any, **options: Any) -> Response:
        if settings.OIDC_ISSUER.startswith("https:") and not url.startswith("https:"):
            raise RequestException("An address of the provider is not https.")
        close_old_connections()
        ends, body = time.monotonic() + ANSWER_SECONDS, b""
        options |= {"timeout": ANSWER_SECONDS, "stream": True, "allow_redirects": False}
        with super().request(method, url, *args, **options) as answer:
            while piece := answer.raw.read1(65_536, decode_content=True):
                body += piece
                if len(body) > ANSWER_MAX_BYTES or time.monotonic() > ends:
                    raise RequestException("An answer of the provider is too long.")
        answer._content = body
        return answer


class Identities(DefaultSocialAccountAdapter):
    """allauth's adapter for the provider and its users."""

    def get_provider(self, request: HttpRequest, *_: Any, **__: Any) -> OpenIDConnectProvider:
        app = SocialApp(provider="openid_connect", provider_id=PROVIDER)
        app.client_id, app.secret = settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET
        app.settings = {"server_url": settings.OIDC_ISSUER.rstrip("/"), "oauth_pkce_enabled": True}
        return OpenIDConnectProvider(request, app)

    def get_requests_session(self) -> Session:
        return ProviderSession()

    def populate_user(self, request: HttpRequest, sociallogin: SocialLogin, data: dict[str, Any]) -> Any:
        """Take names as Django's forms do: wide letters are ordinary ones."""
        plain = {key: normalized("NFKC", str(text)) for key, text in data.items() if text}
        return super().populate_user(request, sociallogin, plain)

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> Any:
        """Make an account without a password; as if connected, since then allauth keeps no address of its own."""
        accounts(request).populate_username(request, sociallogin.user)  # type: ignore[arg-type]  # it has one
        sociallogin.save(request, connect=True)
        return sociallogin.user


def _step(take: Callable[[HttpRequest, OpenIDConnectProvider, Any], Any]) -> Any:
    """A view that takes one step of a sign-in, and says why it cannot."""

    @require_safe
    def view(request: HttpRequest, **_: Any) -> Any:
        if not settings.OIDC_ISSUER:
            raise Http404
        provider = Identities(request).get_provider(request)
        try:
            return take(request, provider, provider.get_oauth2_adapter(request))
        except (*FAILURES, *UNSTORABLE):
            logger.warning("sign-in by the identity provider failed", exc_info=True)
            refuse(request, REFUSED, 502)

    return view


@_step
def begin(request: HttpRequest, provider: OpenIDConnectProvider, adapter: Any) -> Any:
    """To the provider, which is asked for the groups as well, if it has a scope of that name."""
    groups = {settings.OIDC_GROUPS_CLAIM} & {*adapter.openid_config.get("scopes_supported", ())}
    scope, nonce = ["openid", "profile", "email", *groups], secrets.token_urlsafe()
    then = get_next_redirect_url(request)
    return provider.redirect(request, "login", then, scope=scope, auth_params={"nonce": nonce}, nonce=nonce)


@_step
def back(request: HttpRequest, provider: OpenIDConnectProvider, adapter: Any) -> Any:
    """Back from the provider, with a code for an ID token."""
    state = statekit.unstash_state(request, provider_id=PROVIDER, state_id=request.GET.get("state", ""))
    if state is None:
        refuse(request, STALE)
    if "error" in request.GET:
        raise OAuth2Error(request.GET["error"])
    client = adapter.get_client(request, provider.app)
    answer = client.get_access_token(request.GET["code"], state["pkce_code_verifier"])
    claims = _claims(request, str(answer.get("id_token")), adapter.openid_config["jwks_uri"], state["nonce"])
    named = claims.get(settings.OIDC_GROUPS_CLAIM)
    groups = named if isinstance(named, list) else [named]
    if settings.OIDC_REQUIRED_GROUP and settings.OIDC_REQUIRED_GROUP not in groups:
        refuse(request, "Your account at the identity provider is not in the group that may use this server.")
    login = provider.sociallogin_from_response(request, {"id_token": claims})
    login.account.provider, login.account.extra_data = settings.OIDC_ISSUER, {}
    login.email_addresses, login.state = [], state
    with transaction.atomic():
        done = complete_social_login(request, login)
        _give(login.user, groups)
    request.session.set_expiry(LASTS)
    return done


def _claims(request: HttpRequest, token: str, keys_url: str, nonce: str) -> dict[str, Any]:
    """The claims of an ID token, which the issuer signed for us and for this sign-in."""
    keys = ProviderSession().get(keys_url)
    keys.raise_for_status()
    try:
        key = jwt.PyJWKSet.from_dict(keys.json())[jwt.get_unverified_header(token).get("kid", "")]
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=ALGORITHMS,
            issuer=settings.OIDC_ISSUER,
            audience=settings.OIDC_CLIENT_ID,
            leeway=CLOCK_SECONDS,
            options={"require": ["iss", "sub", "aud", "exp", "iat", "nonce"]},
        )
    except (jwt.PyJWTError, KeyError) as exc:
        refuse(request, f"The ID token of the identity provider is refused: {exc}.")
    if claims["nonce"] != nonce or claims.get("azp", settings.OIDC_CLIENT_ID) != settings.OIDC_CLIENT_ID:
        refuse(request, "The ID token belongs to another sign-in. Sign in again.")
    return claims


def _give(user: Any, names: list[Any]) -> None:
    """Set a user's groups to our groups that the provider names.

    The setting's group makes staff. Superusers are made by hand, and stay staff.
    """
    user.groups.set([one for one in Group.objects.all() if one.name in names])
    if settings.OIDC_STAFF_GROUP and not user.is_superuser:
        user.is_staff = settings.OIDC_STAFF_GROUP in names
        user.save(update_fields=["is_staff"])
