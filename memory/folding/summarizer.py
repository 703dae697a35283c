"""Asking a summarizer to fold turns into a state, checking its answer, and counting attempts.

An answer that is acceptable but has soft faults is requested once more, and the better one is kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from chatmemory.database.executors import give_back
from chatmemory.llm import registry
from chatmemory.llm.known_models import output_limit
from chatmemory.llm.protocol import (
    ChatModel,
    Completion,
    Prompt,
    PromptMessage,
    UpstreamError,
    Usage,
    storable_cost,
)
from chatmemory.runtime import fault_points
from chatmemory.text.cleaning import disarm, without_invisible
from chatmemory.text.spans import Retained
from memory.folding import answer_checks, work
from memory.folding.answer_checks import Assessment, assess, retry_instructions
from memory.folding.attempts import backoff_seconds
from memory.folding.provenance import NOTHING_RETAINED, source_hash, text_of
from memory.history.turns import Bite, last_assistant_id
from memory.limits import MemoryLimits
from memory.models import ConversationBrief, RevisionKind
from memory.pins.standing import parted, with_standing
from memory.pins.statements import Statement
from memory.policies import prompt_hash
from memory.policies.protocol import Ask, Policy, Refusal, State
from memory.usage import daily

logger = logging.getLogger(__name__)

NO_USAGE = Usage(0, 0, 0)
MAX_FAULTS = 20
"""The most soft faults that a rebuild records; later ones are dropped."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A state, the turns that were folded into it, and what that took."""

    policy: str
    state: State
    through_seq: int = 0
    turns: int = 0
    tokens: int = 0
    last_assistant_id: UUID | None = None
    source_hash: str = ""
    usage: Usage = NO_USAGE
    cost_usd: Decimal | None = Decimal(0)
    """None if any price is unknown."""
    duration_ms: int = 0
    model: str = ""
    prompt_hash: str = ""
    focus: str = ""
    """The chat's option `focus` that it was made with."""
    custom_instructions: bool = False
    """Whether it was made with the operator's instructions."""
    degraded: bool = False
    """The built-in summarizer replaced the upstream, in all or part of it."""
    soft_faults: tuple[dict[str, Any], ...] = ()
    """Defects of the state, which was accepted anyway (`memory.folding.answer_checks`)."""
    retained: Retained = NOTHING_RETAINED
    """Which salient spans of the newest turns the state has."""
    standing: tuple[Statement, ...] = ()
    """What the user wants from now on, quoted from the newest turns; nobody has checked that a message has it."""


@dataclass(frozen=True, slots=True)
class FoldRequest:
    """Turns to fold, what was folded before, and the policy and limits to use."""

    policy: Policy
    limits: MemoryLimits
    before: Folded
    bite: Bite
    lists_standing: bool = False
    """Whether the summarizer also lists what the user wants from now on, to be pinned."""


class FoldFailed(Exception):
    """The summarizer gave no usable answer. `code` is that of an upstream error or a refusal; the message is ours."""

    def __init__(self, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


@dataclass(slots=True)
class _Calls:
    """The calls of one fold: the model, the time limit, the prompts sent and the answers received."""

    model: ChatModel
    limits: MemoryLimits
    chat_id: str
    started: float
    until: float
    is_upstream: bool
    """The configured summarizer, as opposed to the built-in one used in its place."""
    is_free: bool
    sent: list[Prompt] = field(default_factory=list)
    answers: list[Completion] = field(default_factory=list)

    @property
    def may_repeat(self) -> bool:
        """Whether enough time is left to repeat the call."""
        now = time.monotonic()
        return self.until - now > now - self.started

    @property
    def prompt_hash(self) -> str:
        """The version of the request: a hash of the instructions; repeats count once."""
        return prompt_hash("\n".join(dict.fromkeys(prompt.instructions for prompt in self.sent)))

    @property
    def cost_usd(self) -> Decimal | None:
        """None if a price or a count is unknown."""
        price = settings.SUMMARIZER.price
        if self.is_free:
            return Decimal(0)
        if price is None or any(answer.usage is None for answer in self.answers):
            return None
        costs = (price.cost(answer.usage) for answer in self.answers if answer.usage)
        return storable_cost(sum(costs, Decimal(0)))


@dataclass(frozen=True, slots=True)
class _Accepted:
    """An acceptable state, and the length in tokens to judge it by; 0 if no model had a choice in it."""

    state: State
    room: int = 0
    standing: tuple[Statement, ...] = ()


def ask_summarizer(folding: FoldRequest, *, chat_id: str, builtin: bool, timeout: float) -> Folded:
    """Return what `folding` results in, by the configured summarizer or the built-in one.

    All calls together take at most `timeout` seconds. Raises `FoldFailed` on a hard fault.
    """
    started = time.monotonic()
    calls = _Calls(
        model=registry.offline_model() if builtin else registry.chat_model(),
        limits=folding.limits,
        chat_id=chat_id,
        started=started,
        until=started + timeout,
        is_upstream=not builtin,
        is_free=builtin or registry.is_offline(),
    )
    try:
        best, found = _best(folding, calls)
    except UpstreamError as error:
        raise FoldFailed(error.code, str(error), error.retry_after) from error
    except Refusal as refusal:
        raise FoldFailed(refusal.reason, str(refusal)) from refusal
    before, bite = folding.before, folding.bite
    cost = calls.cost_usd
    return replace(
        before,
        state=best.state,
        through_seq=bite.turns[-1].through_seq,
        turns=before.turns + sum(turn.tokens > 0 for turn in bite.turns),
        tokens=before.tokens + sum(turn.tokens for turn in bite.turns),
        last_assistant_id=last_assistant_id(bite.turns) or before.last_assistant_id,
        source_hash=source_hash(bite.turns, before.source_hash),
        usage=total_usage([before.usage, *(answer.usage for answer in calls.answers)]),
        cost_usd=None if before.cost_usd is None or cost is None else before.cost_usd + cost,
        duration_ms=before.duration_ms + round((time.monotonic() - started) * 1000),
        model=calls.answers[-1].model if calls.answers else "",
        prompt_hash=calls.prompt_hash,
        focus=folding.limits.focus if calls.sent else "",
        custom_instructions=bool(calls.sent and folding.limits.summarizer_task),
        degraded=before.degraded or builtin,
        soft_faults=(*before.soft_faults, *found.to_json())[:MAX_FAULTS],
        retained=found.new.retained,
        standing=best.standing,
    )


def _best(folding: FoldRequest, calls: _Calls) -> tuple[_Accepted, Assessment]:
    """Return the state after the answer, or after the better of two if the first has faults.

    The built-in summarizer is asked only once: its first answer is its best.
    """
    if not without_invisible(text_of(folding.bite.shown)).strip():
        nothing = _Accepted(folding.before.state)  # any answer would be made up, and would be refused
        return nothing, _assess(folding, nothing)
    first = _folded(folding, calls)
    found = _assess(folding, first)
    if not found.faults or not calls.may_repeat:
        return first, found
    logger.info("summarizer asked again", extra={"chat": calls.chat_id, "faults": list(found.faults)})
    try:
        second = _folded(folding, calls, retry_instructions(found))
    except (UpstreamError, Refusal):
        return first, found
    later = _assess(folding, second)
    return (second, later) if later.rank < found.rank else (first, found)


def _assess(folding: FoldRequest, accepted: _Accepted) -> Assessment:
    least = settings.MEMORY_MIN_RETAINED if accepted.room else 0.0
    return assess(
        folding.policy,
        folding.before.state,
        accepted.state,
        folding.bite.turns,
        room=accepted.room,
        least=least,
    )


def _folded(folding: FoldRequest, calls: _Calls, behind: str = "") -> _Accepted:
    """Return the state after one call. `behind` is appended to its material."""
    policy, state, limits = folding.policy, folding.before.state, folding.limits
    turns = folding.bite.shown
    ask = policy.ask(state, turns, limits)
    standing: tuple[Statement, ...] = ()
    if folding.lists_standing and not calls.is_free:  # the built-in summarizer finds none
        ask = with_standing(ask)
        answer, standing = parted(ask, _call(calls, replace(ask, input=ask.input + behind)))
    else:
        answer = _call(calls, replace(ask, input=ask.input + behind))
    after = policy.absorb(state, turns, answer, limits)
    if calls.is_upstream:
        # The built-in summarizer only repeats what it was shown, and no fallback comes after it: never refused.
        answer_checks.check(state, after, answer_checks.said_in(turns))
    return _Accepted(after, 0 if calls.is_free else ask.answer_tokens, standing)


def _call(calls: _Calls, ask: Ask) -> Completion:
    prompt = _prompt(ask, calls)
    limit = output_limit(settings.SUMMARIZER, ask.max_output_tokens)
    variant = replace(settings.SUMMARIZER, max_output_tokens=limit)
    calls.sent.append(prompt)
    answer = calls.model.complete(prompt, variant, timeout=max(0.05, calls.until - time.monotonic()))
    calls.answers.append(answer)
    return answer


def _prompt(ask: Ask, calls: _Calls) -> Prompt:
    told, instructions = ask.input, ask.instructions_under(calls.limits)
    if calls.is_upstream and registry.disarms_control_tokens():
        told, instructions = disarm(told), disarm(instructions)
    return Prompt(
        messages=(PromptMessage("user", told),),
        instructions=instructions,
        cache_key=calls.chat_id,
        schema=ask.schema,
        answer_tokens=ask.answer_tokens,
    )


def total_usage(usages: Iterable[Usage | None]) -> Usage:
    """The sum of the token counts that are known."""
    known = [usage for usage in usages if usage is not None]
    return Usage(
        sum(usage.input_tokens for usage in known),
        sum(usage.cached_tokens for usage in known),
        sum(usage.output_tokens for usage in known),
    )


# Attempts

NO_FAILURES: dict[str, Any] = {"attempts": 0, "next_attempt_at": None, "last_error": None}
"""The fields of a brief after an answer from the upstream, whether or not that answer is used."""


class LeaseLost(Exception):
    """Another worker holds the lease now, or the chat is gone."""


def attempt(
    brief: ConversationBrief,
    folding: FoldRequest,
    *,
    builtin: bool,
    timeout: float,
    kind: RevisionKind = RevisionKind.FOLD,
) -> Folded:
    """Ask a summarizer to do `folding`. `brief` must have been loaded under the lease that it names.

    An attempt of the upstream is recorded, and the lease renewed, before it begins: so one in which the worker dies
    counts too, and a chat that kills workers or is always refused is passed to the built-in summarizer in the end.
    `kind` is the kind of revision that it will be part of. Raises `FoldFailed` after recording a failure, `LeaseLost`
    if the attempt was not even begun.
    """
    number = brief.attempts + 1
    counted = {} if builtin else {"attempts": number, "next_attempt_at": Now() + _wait(number)}
    mine = work.held(brief.chat_id, brief.lease_owner)
    if not mine.update(lease_expires_at=work.expiry(), **counted):
        raise LeaseLost
    try:
        fault_points.point("fold.counted")
        give_back()
        folded = ask_summarizer(folding, chat_id=str(brief.chat_id), builtin=builtin, timeout=timeout)
        fault_points.point("fold.answered")
    except FoldFailed as failure:
        _record_failure(brief, number, kind, failure.code, str(failure))
        raise
    except Exception:
        message = "Folding failed by a fault of our own; the log has it."
        _record_failure(brief, number, kind, "internal", message)
        raise
    return folded


def _record_failure(
    brief: ConversationBrief, number: int, kind: RevisionKind, code: str, message: str
) -> None:
    error = {"code": code, "message": message, "at": timezone.now().isoformat(), "attempt": number}
    wait = _wait(number)
    with transaction.atomic():
        mine = work.held(brief.chat_id, brief.lease_owner)
        mine.update(last_error=error, next_attempt_at=Now() + wait)
        daily.count_failure(kind, brief.policy)
    logger.warning(
        "memory fold failed",
        extra={
            "chat": str(brief.chat_id),
            "code": code,
            "attempt": number,
            "next_attempt_in": wait.total_seconds(),
        },
    )


def _wait(number: int) -> timedelta:
    return timedelta(seconds=backoff_seconds(number, settings.MEMORY_FOLD_BACKOFF_SECONDS))
