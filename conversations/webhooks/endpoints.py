"""Where an app is told of events: one URL with a secret that signs."""

import base64
import secrets
from collections.abc import Sequence

from django.conf import settings
from django.db import transaction
from rest_framework.exceptions import ValidationError

from conversations.models import App, WebhookEvent, WebhookEventType, WebhookState
from conversations.webhooks.addresses import url_problem


def events_of(app: App) -> list[str]:
    return app.webhook_events.split()


def set_webhook(app: App, url: str, events: Sequence[str], *, new_secret: bool = False) -> str | None:
    """Set an app's webhook. Return the secret if it was made now: for the first URL, or on request.

    Waiting events go to the new URL. Raises DRF's `ValidationError` for a URL that no webhook can have.
    """
    if problem := url_problem(url, allow_private=settings.WEBHOOK_ALLOW_PRIVATE):
        raise ValidationError({"url": [problem]})
    app.webhook_url = url
    app.webhook_events = " ".join(one for one in WebhookEventType.values if one in events)
    makes_secret = new_secret or not app.webhook_secret
    if makes_secret:
        app.webhook_secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    app.save(update_fields=["webhook_url", "webhook_events", "webhook_secret"])
    return app.webhook_secret if makes_secret else None


def remove_webhook(app: App) -> None:
    """Remove an app's webhook with what waits for it."""
    app.webhook_url = app.webhook_events = app.webhook_secret = ""
    with transaction.atomic():
        app.save(update_fields=["webhook_url", "webhook_events", "webhook_secret"])
        WebhookEvent.objects.filter(app=app, state=WebhookState.WAITING).delete()
