"""Summarize messages that a caller sends, for clients that keep their own history (seed 004). Nothing is stored.

The policies, checks and batches are those of chats, but nothing is queued: a failure is reported to the caller, who
still has the messages. Blocking, and without the database.
"""

import logging
import time
from collections.abc import Sequence
from itertools import compress
from threading import Event
from uuid import UUID

from django.conf import settings

from chatmemory.errors import InvalidRequest, UpstreamFailed, UpstreamTimedOut
from chatmemory.llm.protocol import PromptMessage
from chatmemory.text.cleaning import without_invisible
from chatmemory.text.tokens import count_tokens
from memory.briefs import limits_for
from memory.folding.summarizer import Folded, FoldFailed, FoldRequest, ask_summarizer
from memory.history.turns import Batch, StoredMessage, Turn, to_turns
from memory.policies import POLICIES
from memory.policies.interval import OPENING, without_opening
from memory.policies.protocol import State

logger = logging.getLogger(__name__)

MAX_BATCHES = 20
"""Most requests to the summarizer for one API request. Input that would take more is refused before the first."""


def summarize(
    policy_name: str, previous: str, messages: Sequence[PromptMessage], seconds: float, ended: Event
) -> Folded:
    """Fold all messages into the `previous` summary, batch after batch, and return the result.

    A reply that begins with the opening words of `interval` is the previous summary, or adds to it. After `seconds`,
    or once the caller has `ended`, no further request is begun. Raises `InvalidRequest` if there is too much or nothing
    to summarize, `UpstreamFailed` and `UpstreamTimedOut` if no answer came.
    """
    until = time.monotonic() + seconds
    is_earlier = [one.role == "assistant" and one.content.strip().startswith(OPENING) for one in messages]
    known = map(without_opening, [previous, *(one.content for one in compress(messages, is_earlier))])
    turns = _turns([one for one, skip in zip(messages, is_earlier, strict=True) if not skip])
    folded = Folded(policy_name, State("\n".join(dict.fromkeys(text for text in known if text))))
    if not (turns or folded.state.summary):
        raise _refused("There is no text to summarize.")
    policy = POLICIES[policy_name]
    limits = limits_for(policy, {}, lambda: "")
    if (tokens := sum(turn.tokens for turn in turns)) > MAX_BATCHES * limits.batch_tokens:
        raise _refused(f"These have {tokens} tokens; at most {MAX_BATCHES * limits.batch_tokens} are taken.")
    while turns:
        timeout = min(settings.SUMMARIZER_TOTAL_SECONDS, until - time.monotonic())
        if timeout <= 0 or ended.is_set():
            raise UpstreamTimedOut("The summarizer took too long.")
        batch = Batch.of(turns, limits.batch_tokens)
        request = FoldRequest(policy, limits, folded, batch)
        try:
            folded = ask_summarizer(request, chat_id="", builtin=False, timeout=timeout)
        except FoldFailed as failure:
            kind = UpstreamTimedOut if failure.code == "upstream_timeout" else UpstreamFailed
            details = {"reason": [failure.code]}
            sentence = f"No summary was made: {failure}"
            raise kind(sentence, details=details, retry_after=failure.retry_after) from failure
        turns = turns[len(batch.turns) :]
    logger.info("history summarized", extra={"messages": len(messages), "policy": policy_name})
    return folded


def _turns(messages: Sequence[PromptMessage]) -> list[Turn]:
    """Turns of messages that are not stored, with positions as ids and seqs. Invisible messages are skipped."""
    return to_turns(
        [
            StoredMessage(UUID(int=seq), seq, message.role, "complete", None, count_tokens(text), content=text)
            for seq, message in enumerate(messages, start=1)
            if without_invisible(text := message.content).strip()
        ]
    )


def _refused(sentence: str) -> InvalidRequest:
    return InvalidRequest(f"messages: {sentence}", details={"messages": [sentence]})
