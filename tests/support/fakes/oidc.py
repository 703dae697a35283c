"""A small OpenID provider over real HTTP: discovery, keys, authorization with PKCE, tokens. It lies on demand."""

from __future__ import annotations

import json
import threading
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

CLIENT, SECRET = "chatmemory-test", "provider-secret-canary"


def new_key() -> RSAPrivateKey:
    return generate_private_key(public_exponent=65537, key_size=2048)


class _Answers(BaseHTTPRequestHandler):
    """How a provider answers. `odd` is set by the provider."""

    odd: dict[str, Any]

    def _is_odd(self, path: str) -> bool:
        """Answer a path oddly, if it is to."""
        if path not in self.odd:
            return False
        if (body := self.odd[path]) is None:
            self.connection.recv(1)
        elif body == "elsewhere":
            self._redirect("/elsewhere", 307)
        else:
            self._answer(body)
        return True

    def _redirect(self, where: str, status: int = 302) -> None:
        self.send_response(status)
        self.send_header("Location", where)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, body: Any, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@dataclass
class Provider:
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

    def __enter__(self) -> Provider:
        self.key = new_key()
        self._codes: dict[str, dict[str, str]] = {}
        outer = self

        class Handler(_Answers):
            odd = self.odd

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if self._is_odd(parts.path):
                    return
                if parts.path in outer.broken:
                    self._answer({}, 500)
                elif parts.path == "/.well-known/openid-configuration":
                    self._answer(outer._discovery())
                elif parts.path == "/keys":
                    jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(outer.key.public_key()))
                    self._answer({"keys": [{**jwk, "kid": "k1", "use": "sig", "alg": "RS256"}]})
                else:
                    self._redirect(outer.authorize(dict(parse_qsl(parts.query))))

            def do_POST(self) -> None:
                sent = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                if not self._is_odd("/token"):
                    found = outer._token({name: values[0] for name, values in sent.items()})
                    self._answer(found, 200 if "id_token" in found else 400)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

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
