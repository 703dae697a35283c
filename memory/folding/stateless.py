"""Summarize messages that a caller sends, for clients that keep their own history (seed 004). Nothing is stored.

The policies, checks and bites are those of chats, but nothing is queued: a failure is reported to the caller, who
still has the messages. Blocking, and without the database.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from chatmemory.errors import InvalidRequest, UpstreamFailed, UpstreamTimedOut
from chatmemory.llm.protocol import PromptMessage
from chatmemory.text.cleaning import without_invisible
from chatmemory.text.tokens import count_tokens
from memory.briefs import limits_for
from memory.folding.summarizer import Folded, FoldFailed, FoldRequest, ask_summarizer
from memory.history.turns import Bite, StoredMessage, Turn, to_turns
from memory.policies import get_policy
from memory.policies.interval import split_carried, without_opening
from memory.policies.protocol import State

logger = logging.getLogger(__name__)

MOST_BITES = 20
"""Most requests to the summarizer for one API request. Input that would take more is refused before the first."""


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """Messages to summarize, and the previous summary."""

    policy: str
    previous: str
    messages: Sequence[PromptMessage]


class TimeLeft:
    """How long the caller waits. `end` may be called from any thread: then no further request is begun."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def end(self) -> None:
        self._until = 0.0

    @property
    def left(self) -> float:
        """Seconds left; zero or less if the time is over."""
        return self._until - time.monotonic()


def summarize(wanted: SummaryRequest, patience: TimeLeft) -> Folded:
    """Fold all messages into the previous summary, bite after bite, and return the result.

    A message that begins with the opening words of `interval` is the previous summary, or adds to it. Raises
    `InvalidRequest` if there is too much or nothing to summarize, `UpstreamFailed` and `UpstreamTimedOut` if no
    answer came.
    """
    carried, turns = split_carried(_turns(wanted.messages))
    known = [without_opening(wanted.previous), *carried]
    folded = Folded(wanted.policy, State("\n".join(dict.fromkeys(text for text in known if text))))
    if not (turns or folded.state.summary):
        raise _refused("Nobody says anything here.")
    policy = get_policy(wanted.policy)
    limits = limits_for(policy, {}, "")
    if (tokens := sum(turn.tokens for turn in turns)) > MOST_BITES * limits.bite_tokens:
        raise _refused(f"These have {tokens} tokens; at most {MOST_BITES * limits.bite_tokens} are taken.")
    while turns:
        bite = Bite.of(turns, limits.bite_tokens)
        folded = _ask(FoldRequest(policy, limits, folded, bite), patience)
        turns = turns[len(bite.turns) :]
    logger.info("history summarized", extra={"messages": len(wanted.messages), "policy": wanted.policy})
    return folded


def _turns(messages: Sequence[PromptMessage]) -> list[Turn]:
    """Turns of messages that are not stored, with positions as ids and seqs. Invisible messages are skipped."""
    rows = [
        StoredMessage(
            id=UUID(int=seq),
            seq=seq,
            role=message.role,
            status="complete",
            superseded=False,
            token_count=count_tokens(message.content),
            content=message.content,
        )
        for seq, message in enumerate(messages, start=1)
        if without_invisible(message.content).strip()
    ]
    return to_turns(rows)


def _ask(folding: FoldRequest, patience: TimeLeft) -> Folded:
    seconds = min(settings.SUMMARIZER_TOTAL_SECONDS, patience.left)
    if seconds <= 0:
        raise UpstreamTimedOut("The summarizer took too long.")
    try:
        return ask_summarizer(folding, chat_id="", builtin=False, timeout=seconds)
    except FoldFailed as failure:
        kind = UpstreamTimedOut if failure.code == "upstream_timeout" else UpstreamFailed
        raise kind(
            f"No summary was made: {failure}",
            details={"reason": [failure.code]},
            retry_after=failure.retry_after,
        ) from failure


def _refused(sentence: str) -> InvalidRequest:
    return InvalidRequest(f"messages: {sentence}", details={"messages": [sentence]})
