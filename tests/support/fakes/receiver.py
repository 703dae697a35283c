"""A receiver of webhooks over real HTTP: it checks each signature with the library, and answers as it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook

from conversations.accounts.models import App
from conversations.webhooks.models import WebhookEventType


@dataclass
class Receiver:
    """`answer` returns a status for the data of each event, and may wait. Everything that came is in `received`."""

    secret: str = ""
    answer: Callable[[dict[str, Any]], int] = lambda event: 204
    received: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    location: str = ""

    def __enter__(self) -> Receiver:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    event = Webhook(outer.secret).verify(body, dict(self.headers))
                except Exception as exc:  # a fault of ours, for the test to see
                    outer.faults.append(repr(exc))
                    raise
                outer.received.append({**event, "id": self.headers["webhook-id"]})
                self.send_response(outer.answer(event))
                if outer.location:
                    self.send_header("Location", outer.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self, app: App, events: str = " ".join(WebhookEventType.values)) -> None:
        """Be the webhook of an app."""
        self.secret = "whsec_c2VjcmV0"
        columns = {"webhook_url": self.url, "webhook_events": events, "webhook_secret": self.secret}
        App.objects.filter(pk=app.pk).update(**columns)

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.received]
