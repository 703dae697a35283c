"""Sign-in by OpenID Connect. allauth leads there and keeps who somebody is; what comes back is checked here.

allauth reads an ID token without checking its signature where it fetched it over TLS, and prefers what another
endpoint says of the user. Here each token needs a signature by a published key of the issuer, and only what it says
counts. It is bound to the browser that began the sign-in by PKCE and a nonce.

An account is found by issuer and subject alone: users often choose the names and addresses in claims themselves.
"""

import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping
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
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import IntegrityError, close_old_connections, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe
from requests import RequestException, Response, Session
from urllib3.exceptions import HTTPError

from conversations.sign_in.password import refused

logger = logging.getLogger(__name__)

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures by a key pair. `none`, and those by a shared secret, are not among them."""
CLOCK_SECONDS = 60
"""By how much the clocks of the provider and of this server may differ."""
MAX_SUBJECT_CHARS = 191
"""The longest id of a user at the provider: that of allauth's column. Providers have UUIDs and the like."""
ANSWER_MAX_BYTES = 1024 * 1024
ANSWER_SECONDS = 5.0
"""How large an answer of the provider may be, and how long it may take."""


class Refused(Exception):
    """A sign-in that is refused; the message is a sentence for people."""


_SENTENCES = {
    "InvalidIssuerError": "The ID token is from another issuer than the one that this server trusts.",
    "InvalidAudienceError": "The ID token was made for another application.",
    "ExpiredSignatureError": "The ID token has expired. Sign in again.",
    "InvalidSignatureError": "The ID token is not signed by the identity provider.",
    "InvalidAlgorithmError": "The ID token is not signed in a way that this server accepts.",
    "KeyError": "The ID token is signed with a key that the identity provider does not publish.",
}


def claims_of(
    token: str, keys: Mapping[str, Any], *, issuer: str, client_id: str, nonce: str
) -> dict[str, Any]:
    """Return the claims of an ID token. `keys` is the issuer's JWKS. Raises `Refused`."""
    try:
        key = jwt.PyJWKSet.from_dict(dict(keys))[jwt.get_unverified_header(token).get("kid", "")]
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=ALGORITHMS,
            issuer=issuer,
            audience=client_id,
            leeway=CLOCK_SECONDS,
            options={"require": ["iss", "sub", "aud", "exp", "iat", "nonce"]},
        )
    except (jwt.PyJWTError, KeyError) as exc:
        told = _SENTENCES.get(type(exc).__name__, "The ID token is not one that this server accepts.")
        raise Refused(told) from exc
    if claims.get("azp", client_id) != client_id:
        raise Refused(_SENTENCES["InvalidAudienceError"])
    if claims["nonce"] != nonce:
        raise Refused("The ID token belongs to another sign-in. Sign in again.")
    if not 0 < len(claims["sub"]) <= MAX_SUBJECT_CHARS:
        raise Refused("The ID token names no user.")
    return claims


def groups_in(claim: Any, known: Collection[str]) -> list[str]:
    """Those of the known groups that a claim names, which is a list, or one group; none if it is of another form."""
    found = claim if isinstance(claim, list) else [claim]
    return sorted({one for one in found if isinstance(one, str)} & set(known))


class ProviderSession(Session):
    """Calls of the provider: bounded, to nowhere else, over TLS if the issuer is, without a database connection."""

    def request(self, method: Any, url: Any, *args: Any, **options: Any) -> Response:
        if settings.OIDC_ISSUER.startswith("https:") and not url.startswith("https:"):
            raise RequestException("An address of the provider is not https.")
        close_old_connections()
        ends, body = time.monotonic() + ANSWER_SECONDS, b""
        options |= {"timeout": ANSWER_SECONDS, "stream": True, "allow_redirects": False}
        answer = super().request(method, url, *args, **options)
        while piece := answer.raw.read1(65_536, decode_content=True):
            body += piece
            if len(body) > ANSWER_MAX_BYTES or time.monotonic() > ends:
                raise RequestException("An answer of the provider is too long.")
        answer._content = body
        return answer


class OidcAdapter(OpenIDConnectOAuth2Adapter):
    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        return request.build_absolute_uri(reverse("oidc_callback"))


class OidcProvider(OpenIDConnectProvider):
    oauth2_adapter_class = OidcAdapter


class Identities(DefaultSocialAccountAdapter):
    """What allauth asks us about the provider and its users."""

    def get_provider(self, request: HttpRequest, provider: Any = None, client_id: Any = None) -> OidcProvider:
        app = SocialApp(provider="openid_connect", provider_id=settings.OIDC_ISSUER, name="single sign-on")
        app.client_id, app.secret = settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET
        app.settings = {"server_url": settings.OIDC_ISSUER.rstrip("/"), "oauth_pkce_enabled": True}
        return OidcProvider(request, app)

    def get_requests_session(self) -> Session:
        return ProviderSession()

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> Any:
        """Make an account without a password; as if connected, since then allauth keeps no address of its own."""
        accounts(request).populate_username(request, sociallogin.user)  # type: ignore[arg-type]  # it has one
        sociallogin.save(request, connect=True)
        return sociallogin.user


def _step(take: Callable[[HttpRequest, OidcProvider, Any], HttpResponse]) -> Any:
    """A view that takes one step of a sign-in, and says why it cannot."""

    @require_safe
    def view(request: HttpRequest) -> HttpResponse:
        if not settings.OIDC_ISSUER:
            raise Http404
        provider = Identities(request).get_provider(request)
        try:
            return take(request, provider, provider.get_oauth2_adapter(request))
        except Refused as exc:
            return refused(request, str(exc))
        except OAuth2Error:
            return refused(request, "The identity provider refused the sign-in.")
        except IntegrityError:  # another sign-in of theirs, or somebody of the same name, was first
            return refused(request, "Your account was just made. Sign in again.")
        except (AttributeError, HTTPError, LookupError, OSError, TypeError, ValueError):
            logger.warning("the identity provider does not answer as expected", exc_info=True)
            sentence = "The identity provider does not answer, or not as expected. Try again in a moment."
            return refused(request, sentence, 502)

    return view


@_step
def begin(request: HttpRequest, provider: OidcProvider, adapter: Any) -> HttpResponse:
    """To the provider, which is asked for the groups as well, if it has a scope of that name."""
    groups = {settings.OIDC_GROUPS_CLAIM} & {*adapter.openid_config.get("scopes_supported", ())}
    scope, nonce = ["openid", "profile", "email", *groups], secrets.token_urlsafe()
    asked, then = {"nonce": nonce}, get_next_redirect_url(request)
    answer: HttpResponse = provider.redirect(
        request, "login", then, scope=scope, auth_params=asked, nonce=nonce
    )
    return answer


@_step
def back(request: HttpRequest, provider: OidcProvider, adapter: Any) -> HttpResponse:
    """Back from the provider, with a code for an ID token."""
    state_id, error, issuer = request.GET.get("state", ""), request.GET.get("error"), settings.OIDC_ISSUER
    state = statekit.unstash_state(request, provider_id=issuer, state_id=state_id)
    if state is None:
        told = "This sign-in was already used, or not begun in this browser in the last 10 minutes. Sign in again."
        raise Refused(told)
    if error == "access_denied":
        raise Refused("The sign-in was cancelled at the identity provider.")
    if "code" not in request.GET:
        raise OAuth2Error
    client = adapter.get_client(request, provider.app)
    answer = client.get_access_token(request.GET["code"], state["pkce_code_verifier"])
    keys = ProviderSession().get(adapter.openid_config["jwks_uri"])
    keys.raise_for_status()
    claims = claims_of(
        str(answer.get("id_token")),
        keys.json(),
        issuer=issuer,
        client_id=client.consumer_key,
        nonce=state["nonce"],
    )
    known = {
        *Group.objects.values_list("name", flat=True),
        settings.OIDC_REQUIRED_GROUP,
        settings.OIDC_STAFF_GROUP,
    }
    groups = groups_in(claims.get(settings.OIDC_GROUPS_CLAIM), known)
    if settings.OIDC_REQUIRED_GROUP and settings.OIDC_REQUIRED_GROUP not in groups:
        raise Refused("Your account at the identity provider is not in the group that may use this server.")
    login = provider.sociallogin_from_response(request, {"id_token": claims})
    login.account.extra_data, login.email_addresses = {}, []
    login.state = {**state, "groups": groups}
    with transaction.atomic():
        done: HttpResponse = complete_social_login(request, login)
    return done
