"""The webhook of an app: where it is told of events. For tokens that act for an app's users, without naming one."""

from functools import partial
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.api.http import Flag, Text, example, validated
from chatmemory.errors import NotFound
from conversations.accounts.authentication import app_of, require_own_account
from conversations.api.serializers import Strict
from conversations.models import App, WebhookEventType
from conversations.webhooks import outbox
from conversations.webhooks.addresses import MAX_URL_CHARS
from conversations.webhooks.endpoints import events_of, remove_webhook, set_webhook

webhook_operation = partial(extend_schema, tags=["apps"])
EVENTS = "What is told: `memory.updated`, `memory.failed`, `reply.completed`, `chat.deleted`."


class WebhookIn(Strict):
    url = Text(max_length=MAX_URL_CHARS, help_text="An `https://` URL at a public address.")
    events = serializers.ListField(
        child=serializers.ChoiceField(WebhookEventType.values),
        default=WebhookEventType.values,
        allow_empty=False,
        max_length=20,
        help_text=f"{EVENTS} All of them if left out.",
    )
    new_secret = Flag(
        default=False, help_text="Whether to replace the secret. The old one stops to sign at once."
    )


class WebhookOut(serializers.Serializer[Any]):
    url = serializers.CharField(help_text="Where events are sent.")
    events = serializers.ListField(child=serializers.ChoiceField(WebhookEventType.values), help_text=EVENTS)
    secret = serializers.CharField(
        allow_null=True, help_text="What signs events. It is shown only once, when it is made; null later."
    )
    waiting = serializers.IntegerField(help_text="How many events are not delivered yet, 1,000 at most.")
    given_up = serializers.IntegerField(
        help_text="How many could not be delivered in a day, of the last 7 days, 1,000 at most."
    )


class WebhookView(APIView):
    @webhook_operation(
        responses=WebhookOut,
        operation_id="webhook_read",
        summary="Get your app's webhook",
        description="With how many events wait, and how many were given up.",
    )
    def get(self, request: Request) -> Response:
        app = _app_of(request)
        if not app.webhook_url:
            raise NotFound("This app has no webhook.")
        return Response(_json(app))

    @webhook_operation(
        request=WebhookIn,
        responses=WebhookOut,
        operation_id="webhook_set",
        summary="Set your app's webhook",
        description="Where your app is told of events from now on. The first answer has the secret that signs them.",
        examples=example({"url": "https://example.com/hook", "events": ["memory.updated"]}),
    )
    def put(self, request: Request) -> Response:
        app, fields = _app_of(request), validated(WebhookIn, request.data)
        return Response(_json(app, secret=set_webhook(app, **fields)))

    @webhook_operation(
        request=None,
        responses={204: None},
        operation_id="webhook_delete",
        summary="Remove your app's webhook",
        description="Events that wait are removed, too.",
    )
    def delete(self, request: Request) -> Response:
        remove_webhook(_app_of(request))
        return Response(status=204)


def _app_of(request: Request) -> App:
    """The app whose own token makes the request. Raises `PermissionDenied` for all others."""
    require_own_account(request)
    return app_of(request.auth)


def _json(app: App, secret: str | None = None) -> dict[str, Any]:
    waiting, given_up = outbox.counts(app=app)
    return {
        "url": app.webhook_url,
        "events": events_of(app),
        "secret": secret,
        "waiting": waiting,
        "given_up": given_up,
    }
