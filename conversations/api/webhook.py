"""The webhook of an app: one URL for its events, and the secret that signs them.

For tokens that act for an app's users, without naming one. The secret is stored as it is, because it signs.
"""

import base64
import secrets
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import (
    CharField,
    ChoiceField,
    IntegerField,
    ListField,
    Serializer,
    ValidationError,
)
from rest_framework.views import APIView

from chatmemory.api.fields import Flag, ShortList, Strict, Text
from chatmemory.api.http import example, validated
from chatmemory.errors import NotFound
from conversations.accounts.authentication import app_of, require_own_account
from conversations.accounts.models import App
from conversations.webhooks import outbox
from conversations.webhooks.addresses import MAX_URL_CHARS, url_problem
from conversations.webhooks.models import WebhookEvent, WebhookEventType, WebhookState

COLUMNS = ("webhook_url", "webhook_events", "webhook_secret")
webhook_operation = partial(extend_schema, tags=["webhooks"])
EVENTS = f"Types of events: {', '.join(f'`{one}`' for one in WebhookEventType.values)}."


class WebhookIn(Strict):
    url = Text(max_length=MAX_URL_CHARS, help_text="An `https://` URL at a public address.")
    events = ShortList(
        child=ChoiceField(WebhookEventType.values, error_messages={"invalid_choice": EVENTS}),
        default=WebhookEventType.values,
        allow_empty=False,
        max_length=20,
        help_text=f"{EVENTS} All of them if left out.",
    )
    new_secret = Flag(
        default=False, help_text="Whether to replace the secret. The old secret stops signing immediately."
    )

    def validate_url(self, url: str) -> str:
        if problem := url_problem(url, allow_private=settings.WEBHOOK_ALLOW_PRIVATE):
            raise ValidationError(problem)
        return url


class WebhookOut(Serializer[Any]):
    url = CharField(help_text="Where events are sent.")
    events = ListField(child=ChoiceField(WebhookEventType.values), help_text=EVENTS)
    secret = CharField(allow_null=True, help_text="The signing secret: shown once, at its creation; then null.")
    waiting = IntegerField(help_text="Number of events that are not delivered yet, 1,000 at most.")
    given_up = IntegerField(help_text="Number of events abandoned in the last 7 days, 1,000 at most.")


class WebhookView(APIView):
    @webhook_operation(responses=WebhookOut, operation_id="webhook_read")
    def get(self, request: Request) -> Response:
        """Get your app's webhook. Includes counts of pending and abandoned events."""
        app = _app_of(request)
        if not app.webhook_url:
            raise NotFound("This app has no webhook.")
        return Response(_json(app))

    @webhook_operation(
        request=WebhookIn,
        responses=WebhookOut,
        operation_id="webhook_set",
        examples=example({"url": "https://example.com/hook", "events": ["memory.updated"]}),
    )
    def put(self, request: Request) -> Response:
        """Set your app's webhook. Events are sent there from now on, including pending events. The first response has
        the secret that signs them.
        """
        app, fields = _app_of(request), validated(WebhookIn, request.data)
        app.webhook_url, events = fields["url"], fields["events"]
        app.webhook_events = " ".join(one for one in WebhookEventType.values if one in events)
        if makes_secret := fields["new_secret"] or not app.webhook_secret:
            app.webhook_secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        app.save(update_fields=COLUMNS)
        return Response(_json(app, secret=app.webhook_secret if makes_secret else None))

    @webhook_operation(request=None, responses={204: None}, operation_id="webhook_delete")
    def delete(self, request: Request) -> Response:
        """Remove your app's webhook. Pending events are removed, too."""
        app = _app_of(request)
        app.webhook_url = app.webhook_events = app.webhook_secret = ""
        with transaction.atomic():
            app.save(update_fields=COLUMNS)
            WebhookEvent.objects.filter(app=app, state=WebhookState.WAITING).delete()
        return Response(status=204)


def _app_of(request: Request) -> App:
    """The app whose own token makes the request. Raises `PermissionDenied` for all others."""
    require_own_account(request)
    return app_of(request.auth)


def _json(app: App, secret: str | None = None) -> dict[str, Any]:
    waiting, given_up = outbox.counts(app=app)
    return {
        "url": app.webhook_url,
        "events": app.webhook_events.split(),
        "secret": secret,
        "waiting": waiting,
        "given_up": given_up,
    }
