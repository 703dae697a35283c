"""The sweep: finds, using only the tables, what a crash or a lost queue left behind, and has it repaired.

It may run at any time, twice at once, or not for a while: it only finishes expired work, removes expired rows, and
queues missing tasks again.
"""

import logging
from datetime import timedelta
from typing import Any

from allauth.idp.oidc.models import Token as AgentToken
from django.contrib.sessions.models import Session
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django_q.models import Failure
from knox.models import AuthToken

from chatmemory.database import executors
from chatmemory.database.owned import ChatKey
from chatmemory.runtime import fault_points
from conversations import account_deletion, attachments
from conversations.accounts import quotas
from conversations.accounts.models import Window
from conversations.models import IdempotencyKey
from conversations.replies.begin import KEY_IS_OLD
from conversations.replies.finish import finish_expired
from conversations.retention import due
from conversations.webhooks import outbox
from memory import queue
from memory.across import scope_index
from memory.folding import leases
from memory.recall import embeddings, index
from memory.usage import daily

logger = logging.getLogger(__name__)

MAX_QUEUED = 200
"""Number of waiting tasks above which a sweep adds none: chats without a task then wait for a later sweep."""
MAX_RECOVERIES = 10
"""The most chats per sweep that retry the upstream only to recover: a dead one must not fill all workers."""
BATCH = 500
KEEP_FAILURES = timedelta(days=7)
FAILING, FAILING_WITHIN = 3, timedelta(minutes=15)
"""After so many failures within that time, the sweep is reported as failing."""
KEEP_WINDOWS = timedelta(days=1)
ERASE_SECONDS = 40.0
"""Time limit for erasing users who requested it; the rest waits for the next sweep."""
RETAIN_SECONDS = 20.0
"""The same for chats that retention erases."""
COUNT_SECONDS = 10.0
"""The same for counting replies into their days' figures."""
SHARE_SECONDS = 10.0
"""The same for making what was said in chats findable from others."""
ANALYSED_AT_ONCE = 5000
"""The most messages that a sweep indexes, such as those stored by a server of an older version during an upgrade."""


def sweep() -> dict[str, int]:
    """Queue the chats with pending memory work, finish stale replies, remove what has expired.

    Returns how many items were handled, by kind. A reply that is finished here queues its fold itself, like any other.
    """
    report = {
        "chats_enqueued": _enqueue_waiting(),
        "replies_finished": finish_expired(),
        "keys_removed": _remove(IdempotencyKey.objects.filter(KEY_IS_OLD)),
        "tokens_removed": _remove(AuthToken.objects.filter(expiry__lt=Now())),
        "agent_tokens_removed": _remove(AgentToken.objects.expired()),
        "sessions_removed": _remove(Session.objects.filter(expire_date__lt=Now())),
        "failures_removed": _remove(Failure.objects.filter(stopped__lt=Now() - KEEP_FAILURES)),
        "calls_refunded": quotas.refund_expired(),
        "windows_removed": _remove(Window.objects.filter(since__lt=Now() - KEEP_WINDOWS)),
        "users_erased": account_deletion.erase_waiting(ERASE_SECONDS),
        "chats_erased": due.erase_due(RETAIN_SECONDS),
        "messages_analysed": index.fill(ANALYSED_AT_ONCE),
        "chats_shared": scope_index.fill(SHARE_SECONDS),
        "chats_to_embed": embeddings.enqueue_missing(),
        "replies_counted": daily.count_replies(COUNT_SECONDS),
        "attachments_removed": attachments.remove_old(),
        "webhook_events_removed": _remove(outbox.outdated_events()),
    }
    index.merge()
    executors.truncate_wal()
    logger.info("swept", extra=report)
    return report


def problem() -> str | None:
    """A sentence if the sweep failed repeatedly of late; else None."""
    failed = Failure.objects.filter(func=queue.SWEEP_TASK, stopped__gte=Now() - FAILING_WITHIN).count()
    if failed < FAILING:
        return None
    minutes = FAILING_WITHIN.seconds // 60
    return f"The sweep failed {failed} times in the last {minutes} minutes; the worker's log says why."


def _enqueue_waiting() -> int:
    """Queue chats that have work but no task, longest waiting first, as far as there is room.

    Due folds come first, then work that owners demanded, one chat per user, then recoveries.
    """
    room = max(0, MAX_QUEUED - queue.waiting_tasks())
    queued = queue.waiting_chats(queue.FOLD_TASK, MAX_QUEUED) if room else set[str]()
    ready = leases.ready().exclude(chat_id__in=queued).order_by(F("next_attempt_at").asc(nulls_first=True))
    waiting = ready.values_list("chat_id", "owner_id")
    chats = [ChatKey(*key) for key in waiting.filter(leases.FLAGGED, on_demand_at=None)[:room]]
    chats += leases.next_demanded(Q(chat_id__in=list(queued)), room - len(chats))
    lost = waiting.exclude(leases.FLAGGED)[: min(MAX_RECOVERIES, room - len(chats))]
    chats += [ChatKey(*key) for key in lost]
    for chat in chats:
        queue.enqueue_fold(chat, lost=True)
    fault_points.point("sweep.enqueued")
    return len(chats)


def _remove(rows: QuerySet[Any]) -> int:
    """Delete `rows`, a batch at a time, so that no writer waits long."""
    removed = 0
    while pks := list(rows.values_list("pk", flat=True)[:BATCH]):
        rows.model._default_manager.filter(pk__in=pks).delete()
        removed += len(pks)
    return removed
