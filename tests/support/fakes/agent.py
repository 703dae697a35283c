"""An agent with a document of its own, over real HTTPS, under a certificate that only it trusts. It lies on demand."""

from __future__ import annotations

import ipaddress
import json
import ssl
import tempfile
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.fakes.http import Call, Serving

VERIFIER = "v" * 43
CHALLENGE = urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).decode().rstrip("=")


def certificate() -> bytes:
    """A key and a certificate of its own for 127.0.0.1 and localhost, as PEM."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "agent")])
    hosts = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@dataclass
class Agent(Serving):
    """`lies` replace what its document says; `raw` replaces the whole document; `status` is its answer's."""

    lies: dict[str, Any] = field(default_factory=dict)
    raw: bytes | None = None
    status: int = 200
    pause: float = 0
    """Seconds in the middle of the document."""
    asked: int = 0

    def get(self, call: Call) -> None:
        self.asked += 1
        body = self.raw if self.raw is not None else json.dumps(self.document()).encode()
        call.send_response(self.status)
        call.send_header("Location", self.client_id)
        call.send_header("Content-Length", str(len(body)))
        call.end_headers()
        call.wfile.write(body[:5])
        time.sleep(self.pause)
        call.wfile.write(body[5:])

    def secure(self, server: ThreadingHTTPServer) -> None:
        with tempfile.TemporaryDirectory() as folder:
            pem = Path(folder) / "agent.pem"
            pem.write_bytes(certificate())
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pem)
            self.trusted = ssl.create_default_context(cadata=pem.read_text().partition("-----BEGIN PRIV")[0])
        server.socket = context.wrap_socket(server.socket, server_side=True)
        self.client_id = f"https://localhost:{server.server_port}/agent.json"

    def document(self) -> dict[str, Any]:
        return {
            "client_id": self.client_id,
            "client_name": "Helper",
            "redirect_uris": ["https://agent.example/back", "http://localhost/callback", "com.example.agent:/back"],
            **self.lies,
        }

    def query(self, site: str, **changes: Any) -> dict[str, Any]:
        """The parameters of the request with which it sends a person to our page."""
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": "https://agent.example/back",
            "scope": "chat read-only",
            "state": "s-1",
            "resource": f"{site}/mcp",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
        }
        return {name: value for name, value in {**asked, **changes}.items() if value is not None}

    def trade(self, code: str, /, **changes: Any) -> dict[str, Any]:
        """The parameters with which it changes a code for tokens."""
        asked = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self.client_id,
            "redirect_uri": "https://agent.example/back",
            "code_verifier": VERIFIER,
        }
        return {name: value for name, value in {**asked, **changes}.items() if value is not None}
