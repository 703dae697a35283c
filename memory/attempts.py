"""One attempt at a summarizer: written down before it begins, and again when it fails.

So a worker that dies in it has been counted, and a chat that kills workers or is refused for ever comes to the
built-in summarizer in the end. What the answer is good for is not known here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory import faults
from chatmemory.db import UNSTORABLE
from memory import daily, leasing
from memory.asking import Answer, FoldFailed, Folding, ask_summarizer
from memory.models import ConversationBrief, Kind
from memory.pacing import backoff_seconds

logger = logging.getLogger(__name__)

T = TypeVar("T")
NOT_STORED = "not_stored"


class LeaseLost(Exception):
    """Somebody else works on the chat now, or it is gone."""


def attempt(
    brief: ConversationBrief, folding: Folding, *, builtin: bool, timeout: float, kind: Kind = Kind.FOLD
) -> Answer:
    """Ask a summarizer for what `folding` wants. `brief` was loaded under the lease that it names.

    `kind` is the work that it is part of.

    Raises `FoldFailed` when that failed and was written down, `LeaseLost` when it was not even begun.
    """
    number = brief.attempts + 1
    if not _begin(brief, number, builtin=builtin):
        raise LeaseLost
    try:
        faults.point("fold.counted")
        answer = ask_summarizer(folding, chat_id=str(brief.chat_id), builtin=builtin, timeout=timeout)
        faults.point("fold.answered")
    except FoldFailed as failure:
        _failed(brief, number, kind, failure.code, str(failure))
        raise
    except Exception:
        _failed(brief, number, kind, "internal", "Folding failed by a fault of our own; the log has it.")
        raise
    return answer


def storing(brief: ConversationBrief, kind: Kind, store: Callable[[], T]) -> T:
    """What `store` returns, which writes what attempts brought. An answer that no column takes counts as a failed one.

    Raises `FoldFailed` when that was written down. What a rebuild has come to so far goes: it could never be stored.
    """
    try:
        return store()
    except UNSTORABLE as exc:
        logger.error(
            "memory does not fit the database",
            extra={"chat": str(brief.chat_id), "kind": kind.value, "error": type(exc).__name__},
        )
        number, message = brief.attempts + 1, "What the summarizer answered does not fit the database."
        leasing.held(brief.chat_id, brief.lease_owner).update(attempts=number, rebuild=None)
        _failed(brief, number, kind, NOT_STORED, message)
        raise FoldFailed(NOT_STORED, message) from exc


def forgive(brief: ConversationBrief) -> None:
    """The upstream answered: its failures count no more, whatever becomes of the answer.

    Only those of storing do: else a rebuild that can never be stored would be made, and paid for, again and again.
    """
    mine = leasing.held(brief.chat_id, brief.lease_owner)
    if (brief.last_error or {}).get("code") == NOT_STORED:
        mine.update(attempts=brief.attempts, next_attempt_at=None)
    else:
        mine.update(attempts=0, next_attempt_at=None, last_error=None)


def _begin(brief: ConversationBrief, number: int, *, builtin: bool) -> bool:
    if builtin:
        return leasing.renew(brief.chat_id, brief.lease_owner)
    return leasing.count_attempt(brief.chat_id, brief.lease_owner, number, _wait(number))


def _failed(brief: ConversationBrief, number: int, kind: Kind, code: str, message: str) -> None:
    error = {"code": code, "message": message, "at": timezone.now().isoformat(), "attempt": number}
    with transaction.atomic():
        leasing.held(brief.chat_id, brief.lease_owner).update(
            last_error=error, next_attempt_at=Now() + timedelta(seconds=_wait(number))
        )
        daily.count_failure(kind, brief.policy)
    logger.warning(
        "memory fold failed",
        extra={
            "chat": str(brief.chat_id),
            "code": code,
            "attempt": number,
            "next_attempt_in": _wait(number),
        },
    )


def _wait(number: int) -> float:
    return backoff_seconds(number, settings.MEMORY_FOLD_BACKOFF_SECONDS)
