"""Requests to bring a chat's memory up to date beyond what is due: later by a worker, or at once in this process.

Requests are stored in the brief; the queue is only a hint. Also what one would take: tokens × price, from counts alone.
No text is read for that.
"""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Avg

from chatmemory.database.ids import new_id
from chatmemory.database.owned import ChatKey
from chatmemory.llm import registry
from chatmemory.llm.protocol import Usage
from chatmemory.text.tokens import count_tokens
from conversations.accounts import quotas
from conversations.models import Chat
from memory import conf, queue
from memory.briefs import Memory, brief_of, lock_brief
from memory.folding import leases
from memory.folding.fold import FoldReport, fold
from memory.history.rows import counts_between, newest_turns, pending_seq
from memory.history.turns import Turn
from memory.models import ConversationBrief, Requested, RevisionKind, SummaryRevision

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


# What a request would take

CALLS_READ = 50
"""Newest folds from which the time of a call is estimated, so that the cost does not grow with the chat."""
_NEXT_TO_NOTHING = Turn(1, 2, "?", "!", False, 1, 1, (), None)


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate. `tokens` counts the turns to fold; `input_tokens` also counts everything else that calls send."""

    turns: int
    tokens: int
    calls: int
    input_tokens: int
    output_tokens: int
    """If answers are as long as requested."""
    cost_usd: Decimal | None
    """Nothing by the built-in summarizer; None if the price is unknown."""
    minutes: float | None
    """None if no duration of an earlier call is known."""


def estimate_for(chat: Chat, mode: Mode, *, after_seq: int | None = None) -> Estimate:
    """Estimate what a rebuild of the chat's memory would take, or an update of everything beyond the window.

    `after_seq`: for an update, start after this message instead of at the end of the memory in use.
    """
    brief = brief_of(chat)
    in_use = Memory.of(brief)
    if mode == "rebuild":
        memory, after = Memory.anew(brief), 0
    else:
        memory, after = in_use, brief.folded_through_seq if after_seq is None else after_seq
    newest = newest_turns(chat.key, after, before_seq=pending_seq(chat.key))
    through, batch_tokens = memory.last_seq_before_window(newest, after), memory.limits.batch_tokens
    turns, tokens = counts_between(chat.key, after, through + 1, max_tokens=batch_tokens)
    # Of each batch, the room that the next turn did not fit into stays empty: half a turn on average.
    mean = tokens / max(1, turns)
    calls = math.ceil(tokens / min(batch_tokens, max(mean, batch_tokens - mean / 2)))
    # The state in use is about as large as the one that is sent along from batch to batch.
    state = in_use.state if memory.policy.name == brief.policy else memory.state
    ask = memory.policy.ask(state, (_NEXT_TO_NOTHING,), memory.limits)
    sent = count_tokens(ask.instructions_under(memory.limits)) + count_tokens(ask.input)
    usage, price = Usage(tokens + calls * sent, 0, calls * ask.answer_tokens), conf.summarizer().price
    folds = SummaryRevision.objects.filter(chat=chat, kind=RevisionKind.FOLD, input_tokens__gt=0)
    call_ms = folds.order_by("-version")[:CALLS_READ].aggregate(mean=Avg("duration_ms"))["mean"]
    return Estimate(
        turns=turns,
        tokens=tokens,
        calls=calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=Decimal(0) if registry.is_offline() else None if price is None else price.cost(usage),
        minutes=calls * call_ms / 60_000 if call_ms else None,
    )
