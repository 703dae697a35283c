"""The table of webhook events: stored with the fact that they tell, taken by a worker, then delivered or given up.

An event is taken by counting its attempt (compare and swap) and setting `not_before` to when its worker would be taken
for dead. So several workers share the table, and what a killed one held is sent again. Only the first waiting event of
a chat is ever taken: that keeps the order. All times are the database's.
"""

import logging
import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet
from django.db.models.functions import Now

from chatmemory import metrics
from chatmemory.database.ids import new_id
from chatmemory.database.owned import ChatKey
from conversations.accounts.models import App
from conversations.models import Chat
from conversations.webhooks.models import WebhookEvent, WebhookEventType, WebhookState

logger = logging.getLogger(__name__)

MAX_AT_ONCE = 32
"""The most deliveries of a worker at a time."""
MAX_OF_APP = 4
"""The most of them to one app: a receiver that hangs leaves room for the others."""
LEASE = timedelta(seconds=30)
"""Three times what a delivery may take: then its worker is gone, and it is repeated."""
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 2, 3600
"""The wait after a first failure, and its maximum after doublings."""
GIVE_UP_AFTER = timedelta(days=1)
MAX_COUNTED = 1000
KEEP_ENDED = timedelta(days=7)
"""How long events are kept, for staff to see, once they are delivered or given up."""

WAITING = WebhookEvent.objects.filter(state=WebhookState.WAITING)


def record(chat: ChatKey, event: WebhookEventType, figures: Mapping[str, Any]) -> None:
    """Store an event for the chat's app, if it wants that type; call it in the transaction of the fact."""
    wanting = Chat.objects.filter(pk=chat.id, owner=chat.owner_id, app__webhook_events__contains=event.value)
    for app_id, end_user in wanting.values_list("app_id", "owner__end_user__external_id"):
        about = {"event_id": new_id(), "app_id": app_id, "chat_id": chat.id, "end_user": end_user}
        WebhookEvent.objects.create(**about, type=event, figures=dict(figures))


def take(busy: Mapping[int, int]) -> list[WebhookEvent]:
    """Take events that are due, with their apps, as far as there is room; `busy` has how many of each app are out.

    One statement if there are none.
    """
    due = WAITING.filter(not_before__lte=Now())
    apps = list(App.objects.filter(Exists(due.filter(app=OuterRef("pk")))).values_list("pk", flat=True))
    random.shuffle(apps)  # or the first ones would take all the room
    earlier = WAITING.filter(chat_id=OuterRef("chat_id"), pk__lt=OuterRef("pk"))
    room, taken = MAX_AT_ONCE - sum(busy.values()), list[WebhookEvent]()
    for app in apps:
        free = min(MAX_OF_APP - busy.get(app, 0), room - len(taken))
        heads = due.filter(~Exists(earlier), app=app).select_related("app").order_by("not_before", "pk")
        taken += [event for event in heads[: max(0, free)] if _take(event)]
    return taken


def _take(event: WebhookEvent) -> bool:
    mine = _mine(event).update(attempts=F("attempts") + 1, not_before=Now() + LEASE)
    event.attempts += 1
    return bool(mine)


def _mine(event: WebhookEvent) -> QuerySet[WebhookEvent]:
    """The event's row, unless another worker has taken it since."""
    return WAITING.filter(pk=event.pk, attempts=event.attempts)


def record_delivery(event: WebhookEvent) -> None:
    """Record that the receiver has an event. If its worker was taken for dead, it is sent once more."""
    _mine(event).update(state=WebhookState.DELIVERED, ended_at=Now(), error="")
    metrics.WEBHOOKS.labels("delivered").inc()


def record_failure(event: WebhookEvent, error: str) -> None:
    """Record why an attempt failed, and try again later; or give up, a day after the fact.

    Later events of its chat wait as long, and their rows are not read meanwhile.
    """
    about = {"app": event.app_id, "webhook_id": str(event.event_id), "type": event.type}
    about |= {"attempt": event.attempts, "error": error}
    given_up = {"state": WebhookState.GIVEN_UP, "ended_at": Now(), "error": error}
    if _mine(event).filter(created_at__lt=Now() - GIVE_UP_AFTER).update(**given_up):
        logger.error("webhook event given up", extra=about)
        metrics.WEBHOOKS.labels("given_up").inc()
        return
    wait = min(FIRST_WAIT_SECONDS * 2 ** min(event.attempts - 1, 20), LONGEST_WAIT_SECONDS)
    later = Now() + timedelta(seconds=wait)
    if _mine(event).update(not_before=later, error=error):
        WAITING.filter(chat_id=event.chat_id, pk__gt=event.pk).update(not_before=later)
    metrics.WEBHOOKS.labels("failed").inc()
    logger.warning("webhook event not delivered", extra={**about, "next_attempt_in": wait})


def counts(**which: Any) -> tuple[int, int]:
    """How many events wait, and how many of the last days were given up: `MAX_COUNTED` of each at most."""
    rows = WebhookEvent.objects.filter(**which)
    states = (WebhookState.WAITING, WebhookState.GIVEN_UP)
    waiting, given_up = (rows.filter(state=state)[:MAX_COUNTED].count() for state in states)
    return waiting, given_up


def outdated_events() -> QuerySet[WebhookEvent]:
    """Events that are kept no longer."""
    return WebhookEvent.objects.filter(ended_at__lt=Now() - KEEP_ENDED)
