"""A small OpenID provider over real HTTP: discovery, keys, authorization with PKCE, tokens. It lies on demand."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from tests.support.fakes.http import Call, Serving

CLIENT, SECRET = "chatmemory-test", "provider-secret-canary"


def new_key() -> RSAPrivateKey:
    return generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Provider(Serving):
    """`claims` describe the next user to sign in; `lies` replace claims of their ID token."""

    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "u-1", "preferred_username": "olga"})
    lies: dict[str, Any] = field(default_factory=dict)
    kid: str = "k1"
    algorithm: str = "RS256"
    signs_with: Any = None
    broken: frozenset[str] = frozenset()
    """Paths that answer 500."""
    odd: dict[str, Any] = field(default_factory=dict)
    """What paths answer instead, as JSON; None: nothing at all, until the client goes."""
    asked: list[dict[str, str]] = field(default_factory=list)
    """The parameters of each authorization, as they came."""

    def __post_init__(self) -> None:
        self.key = new_key()
        self._codes: dict[str, dict[str, str]] = {}

    def get(self, call: Call) -> None:
        parts = urlsplit(call.path)
        if self._answers_oddly(call, parts.path):
            return
        if parts.path in self.broken:
            call.answer(500, {})
        elif parts.path == "/.well-known/openid-configuration":
            call.answer(200, self._discovery())
        elif parts.path == "/keys":
            jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
            call.answer(200, {"keys": [{**jwk, "kid": "k1", "use": "sig", "alg": "RS256"}]})
        else:
            call.answer(302, Location=self.authorize(dict(parse_qsl(parts.query))))

    def post(self, call: Call) -> None:
        sent = dict(parse_qsl(call.body.decode()))
        if not self._answers_oddly(call, "/token"):
            found = self._token(sent)
            call.answer(200 if "id_token" in found else 400, found)

    def _answers_oddly(self, call: Call, path: str) -> bool:
        if path not in self.odd:
            return False
        if (body := self.odd[path]) is None:
            call.connection.recv(1)
        elif body == "elsewhere":
            call.answer(307, Location="/elsewhere")
        else:
            call.answer(200, body)
        return True

    @property
    def issuer(self) -> str:
        return self.base_url

    def trust(self, settings: Any) -> None:
        """Be the provider of the settings."""
        settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = (
            self.issuer,
            CLIENT,
            SECRET,
        )

    def authorize(self, asked: dict[str, str]) -> str:
        """Sign a user in at once, and return the URL to which the browser is redirected."""
        self.asked.append(asked)
        code = f"code-{len(self.asked)}"
        self._codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def _discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "scopes_supported": ["openid", "profile", "email", "groups"],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def _token(self, sent: dict[str, str]) -> dict[str, Any]:
        """Exchange a code once, given the verifier of its challenge."""
        asked = self._codes.pop(sent.get("code", ""), None)
        digest = urlsafe_b64encode(sha256(sent.get("code_verifier", "").encode()).digest()).rstrip(b"=").decode()
        if asked is None or sent.get("client_secret") != SECRET or digest != asked["code_challenge"]:
            return {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims |= self.claims | self.lies
        claims = {name: value for name, value in claims.items() if value is not None}
        key = "" if self.algorithm == "none" else self.signs_with or self.key
        token = jwt.encode(claims, key, self.algorithm, headers={"kid": self.kid})
        return {"access_token": "opaque", "token_type": "Bearer", "expires_in": 300, "id_token": token}
