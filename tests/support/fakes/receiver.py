"""A receiver of webhooks over real HTTP: it checks each signature with the library, and answers as it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from standardwebhooks import Webhook

from conversations.accounts.models import App
from conversations.webhooks.models import WebhookEventType
from tests.support.fakes.http import Call, Serving


@dataclass
class Receiver(Serving):
    """`answer` returns a status for the data of each event, and may wait. Everything that came is in `received`."""

    secret: str = ""
    answer: Callable[[dict[str, Any]], int] = lambda event: 204
    received: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    location: str = ""

    def post(self, call: Call) -> None:
        body = call.body
        if len(body) < int(call.headers["Content-Length"]):
            return  # the sender was killed in between
        try:
            event = Webhook(self.secret).verify(body, dict(call.headers))
        except Exception as exc:  # a fault of ours, for the test to see
            self.faults.append(repr(exc))
            raise
        self.received.append({**event, "id": call.headers["webhook-id"]})
        call.answer(self.answer(event), **({"Location": self.location} if self.location else {}))

    @property
    def url(self) -> str:
        return f"{self.base_url}/hook"

    def serve(self, app: App, events: str = " ".join(WebhookEventType.values)) -> None:
        """Be the webhook of an app."""
        self.secret = "whsec_c2VjcmV0"
        columns = {"webhook_url": self.url, "webhook_events": events, "webhook_secret": self.secret}
        App.objects.filter(pk=app.pk).update(**columns)

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.received]
