"""Sign-in by OpenID Connect: allauth's provider, which here trusts nothing but an ID token that it has verified.

allauth reads an ID token without checking its signature where it fetched it over TLS, and prefers what another
endpoint says of the user. Here each token needs a signature by a published key of the issuer, and only what it says
counts. It is bound to the browser that began the sign-in: by PKCE, and by a nonce, which is the challenge of PKCE.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from allauth.account.utils import get_next_redirect_url
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialToken
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from requests import RequestException

from conversations.sign_in.refusal import refused

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures by a key pair. `none`, and those by a shared secret, are not among them."""
CLOCK_SECONDS = 60
"""By how much the clocks of the provider and of this server may differ."""
MAX_SUBJECT_CHARS = 191
"""The longest id of a user at the provider: that of allauth's column. Providers have UUIDs and the like."""


class Refused(OAuth2Error):
    """An ID token that is not accepted; the message is a sentence for people."""


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
    import jwt  # with cryptography: 10 MB, for those who sign in so

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
        raise Refused("The ID token was made for another application.")
    if claims["nonce"] != nonce:
        raise Refused("The ID token belongs to another sign-in. Sign in again.")
    if not 0 < len(claims["sub"]) <= MAX_SUBJECT_CHARS or "\0" in claims["sub"]:
        raise Refused("The ID token names no user.")
    return claims


def groups_in(claims: Mapping[str, Any], name: str) -> list[str]:
    """The groups that a claim names, which is a list, or one group; none if it is missing or of another form."""
    value = claims.get(name)
    found = value if isinstance(value, list) else [value]
    return sorted({one for one in found if isinstance(one, str) and one and "\0" not in one})


class OidcAdapter(OpenIDConnectOAuth2Adapter):
    """One sign-in: from the redirect to the provider to the verified claims."""

    _nonce = ""

    @property
    def openid_config(self) -> dict[str, Any]:
        try:
            config: dict[str, Any] = super().openid_config
        except (RequestException, ValueError) as exc:
            raise ImmediateHttpResponse(refused(self.request, NO_ANSWER, 502)) from exc
        return config

    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        return request.build_absolute_uri(reverse("oidc_callback"))

    def get_access_token_data(
        self, request: HttpRequest, app: Any, client: Any, pkce_code_verifier: Any = None
    ) -> Any:
        self._nonce = challenge_of(pkce_code_verifier)
        return super().get_access_token_data(request, app, client, pkce_code_verifier)

    def parse_token(self, data: Any) -> SocialToken:
        """Keep no token of the provider: we ask it nothing in the user's name."""
        return SocialToken()

    def complete_login(self, request: HttpRequest, app: Any, token: SocialToken, **kwargs: Any) -> Any:
        with get_adapter().get_requests_session() as session:
            answer = session.get(self.openid_config["jwks_uri"])
            answer.raise_for_status()
            keys = answer.json()
        claims = claims_of(
            str(kwargs["response"].get("id_token", "")),
            keys,
            issuer=settings.OIDC_ISSUER,
            client_id=app.client_id,
            nonce=self._nonce,
        )
        return OidcProvider(request, app=app).sociallogin_from_response(request, claims)


NO_ANSWER = "The identity provider does not answer, or not as expected. Try again in a moment."


def challenge_of(verifier: str) -> str:
    """PKCE's challenge for a verifier (S256)."""
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


class OidcProvider(OpenIDConnectProvider):
    """The provider of the settings. An identity is its issuer with its subject: both never change."""

    pkce_enabled_default = True
    oauth2_adapter_class = OidcAdapter

    def get_redirect_from_request_kwargs(self, request: HttpRequest) -> dict[str, Any]:
        """Only where to go afterwards is taken from the request: allauth also takes scopes and other parameters."""
        return {"process": "login", "next_url": get_next_redirect_url(request)}

    def get_pkce_params(self) -> dict[str, Any]:
        params = super().get_pkce_params()
        return {**params, "nonce": params["code_challenge"]}

    def get_scope(self) -> list[str]:
        """Ask for the groups as well, if the provider has a scope of that name."""
        config = self.get_oauth2_adapter(self.request).openid_config
        groups = {settings.OIDC_GROUPS_CLAIM} & set(config.get("scopes_supported", ()))
        return ["openid", "profile", "email", *groups]

    def extract_uid(self, data: Mapping[str, Any]) -> str:
        return str(data["sub"])

    def extract_extra_data(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Of the claims, only the groups are stored with the identity."""
        return {"groups": groups_in(data, settings.OIDC_GROUPS_CLAIM)}

    def extract_common_fields(self, data: Mapping[str, Any]) -> dict[str, str]:
        names = {"username": "preferred_username", "first_name": "given_name", "last_name": "family_name"}
        names["email"] = "email"
        return {ours: str(data.get(theirs) or "").replace("\0", "") for ours, theirs in names.items()}

    def extract_email_addresses(self, data: Mapping[str, Any]) -> list[Any]:
        return []


provider_classes = [OidcProvider]
