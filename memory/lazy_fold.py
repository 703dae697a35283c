"""The lazy fold (seed 003): a reply that waits for a summary, for a bounded time.

This is the one exception to the rule that replies never wait: only in a chat that enables it by its option `lazy`,
and it never causes an error. Lease, back-off and attempts apply as in the worker, so nobody waits for an upstream
that is down.
"""

from __future__ import annotations

import logging
import time
from uuid import UUID

from memory.briefs import Memory
from memory.folding.fold import Outcome, fold
from memory.models import ConversationBrief

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05
"""How often to check whether a worker that holds the chat has finished."""


class StaleMemory(Exception):
    """A signal, not an error: the chat is due, and its reply may wait `seconds` for the fold. Nothing is stored yet."""

    def __init__(self, chat_id: UUID, seconds: float) -> None:
        super().__init__("the memory of a chat is to be freshened first")
        self.chat_id, self.seconds = chat_id, seconds


def require_fresh(memory: Memory) -> None:
    """Raise `StaleMemory` if the chat is due and its policy lets a reply wait."""
    seconds = memory.policy.lazy_seconds(memory.limits)
    if memory.brief.due and seconds and memory.limits.enabled:
        raise StaleMemory(memory.brief.chat_id, seconds)


def freshen(chat_id: UUID, seconds: float) -> None:
    """Fold what is due, or wait while a worker does, for about `seconds`; a running call may take a little longer.

    Must not be called in a transaction, nor on a thread that others wait for. Never raises.
    """
    started = time.monotonic()
    try:
        outcome = _fold(chat_id, started + seconds)
    except Exception:  # a reply with an older memory is better than none
        logger.exception("memory not freshened", extra={"chat": str(chat_id)})
        return
    waited = round((time.monotonic() - started) * 1000)
    logger.info(
        "reply waited for memory", extra={"chat": str(chat_id), "outcome": outcome, "waited_ms": waited}
    )


def _fold(chat_id: UUID, until: float) -> Outcome:
    while True:
        outcome = fold(chat_id, until=until).outcome
        due = ConversationBrief.objects.filter(chat_id=chat_id, due=True)
        if outcome != "idle" or time.monotonic() >= until or not due.exists():
            return outcome
        time.sleep(POLL_SECONDS)
