"""Requests to bring a chat's memory up to date beyond what is due: later by a worker, or at once in this process.

Requests are stored in the brief; the queue is only a hint.
"""

import logging
import math
import time
from collections.abc import Callable
from typing import Literal

from django.contrib.auth.models import User
from django.db import transaction

from chatmemory.database.ids import new_id
from chatmemory.database.owned import ChatKey
from conversations.accounts import quotas
from conversations.models import Chat
from memory import queue
from memory.briefs import lock_brief
from memory.folding import leases
from memory.folding.fold import FoldReport, fold
from memory.models import ConversationBrief, Requested

logger = logging.getLogger(__name__)

Mode = Literal["update", "rebuild"]


def request_resummarize(chat: Chat, mode: Mode, user: User | None = None) -> str:
    """Have everything outside the window folded, or the memory rebuilt from the originals. Returns the task's id.

    This is the operator's way: at once, regardless of the limits of the chat's owner. `user` is for the log.
    """
    with transaction.atomic():
        note_request(chat, mode)
        task_id = queue.enqueue_fold(chat.key)
    extra = {"chat": str(chat.pk), "mode": mode, "user": user.pk if user else None, "task": task_id}
    logger.info("memory resummarize requested", extra=extra)
    return task_id


def demand_resummarize(chat: Chat, mode: Mode) -> str:
    """Request the same as the chat's owner, within their limits. Returns the id of the task that does it, or will.

    An earlier request that is still open covers this one, which is then not counted again. A request does not shorten
    the wait after a failure of the summarizer. Raises `NotFound`, `RateLimited` and `QuotaExceeded`.
    """
    with transaction.atomic():
        brief = lock_brief(chat.key)
        brief.unpause()
        if brief.requested not in (Requested.REBUILD, mode):
            quotas.take_rebuild(chat.owner_id)
            brief.requested = Requested(mode)
            if brief.queued_at is None:  # else the waiting task does this as well
                brief.task_name = str(new_id())
            leases.mark_demanded(brief)
        leases.save(brief)
    extra = {"chat": str(chat.pk), "mode": mode, "task": brief.task_name}
    logger.info("memory resummarize demanded", extra=extra)
    return brief.task_name


def note_request(chat: Chat, mode: Mode) -> None:
    """Store the request in the chat's brief, where it stays until it is done. Queues nothing.

    A rebuild includes an update and is not replaced by one. An operator's request waits neither for a back-off nor
    for the limits of the chat's owner. It ends a pause of updates.
    """
    with transaction.atomic():
        brief = lock_brief(chat.key)
        if brief.requested != Requested.REBUILD:
            brief.requested = Requested(mode)
        brief.next_attempt_at = brief.delayed_until = brief.on_demand_at = None
        brief.unpause()
        brief.save()


def resummarize_now(chat: Chat, mode: Mode, *, tell: Callable[[int], None] = lambda _: None) -> FoldReport:
    """Update or rebuild the memory of `chat` in this process, however long it takes; `tell` is called as in `fold`.

    Must not run in a transaction. The outcome is `done` on success; `idle` if a worker has the chat; `more` if a worker
    does what became due meanwhile.
    """
    note_request(chat, mode)
    report = fold(chat.key, until=math.inf, tell=tell)
    if report.outcome == "more":
        queue.enqueue_fold(chat.key)
    return report


POLL_SECONDS = 0.05
"""How often to check whether a worker that holds the chat has finished."""


def freshen(chat: ChatKey, seconds: float) -> None:
    """Fold what is due, or wait while a worker does, for about `seconds`; a running call may take a little longer.

    This is the one exception to the rule that replies never wait: only in a chat that enables it by its option `lazy`
    (seed 003). Lease, back-off and attempts apply as in the worker: no reply waits for an upstream that is down. Must
    not be called in a transaction, nor on a thread that others wait for. Never raises.
    """
    started = time.monotonic()
    until, due = started + seconds, ConversationBrief.objects.filter(**chat.columns, due=True)
    try:
        while (outcome := fold(chat, until=until).outcome) == "idle":
            if time.monotonic() >= until or not due.exists():
                break
            time.sleep(POLL_SECONDS)
    except Exception:  # a reply with an older memory is better than none
        logger.exception("memory not freshened", extra={"chat": str(chat.id)})
        return
    waited = round((time.monotonic() - started) * 1000)
    extra = {"chat": str(chat.id), "outcome": outcome, "waited_ms": waited}
    logger.info("reply waited for memory", extra=extra)
