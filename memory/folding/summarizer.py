"""Asking a summarizer to fold turns into a state, and checking its answer.

An answer that is acceptable but has soft faults is requested once more, and the better one is kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from django.conf import settings

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
from chatmemory.text.cleaning import disarm, without_invisible
from memory.folding import answer_checks
from memory.folding.answer_checks import Assessment, assess, retry_instructions
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.policies import prompt_hash
from memory.policies.protocol import Ask, Policy, Refusal, State

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoldRequest:
    """Turns to fold, the state to fold them into, and the policy and limits to use."""

    policy: Policy
    state: State
    turns: Sequence[Turn]
    limits: MemoryLimits


@dataclass(frozen=True, slots=True)
class FoldAnswer:
    """A state with some turns folded in, and what that took."""

    state: State
    model: str
    usage: Usage
    cost_usd: Decimal | None
    """None if the price is unknown."""
    prompt_hash: str
    focus: str
    """The chat's option `focus` that it was made with."""
    custom_instructions: bool
    """Whether it was made with the operator's instructions."""
    duration_ms: int
    soft_faults: Sequence[Mapping[str, Any]] = ()
    """Defects of the state, which was accepted anyway (`memory.folding.answer_checks`)."""


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
    said: list[Completion] = field(default_factory=list)

    @property
    def may_repeat(self) -> bool:
        """Whether enough time is left to repeat the call."""
        now = time.monotonic()
        return self.until - now > now - self.started


@dataclass(frozen=True, slots=True)
class _Accepted:
    """An acceptable state, and the requested length of its answer in tokens; 0 if unknown."""

    state: State
    room: int


def ask_summarizer(folding: FoldRequest, *, chat_id: str, builtin: bool, timeout: float) -> FoldAnswer:
    """Return `folding.state` with its turns folded in, by the configured summarizer or the built-in one.

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
        state, faults = _best(folding, calls)
    except UpstreamError as error:
        raise FoldFailed(error.code, str(error), error.retry_after) from error
    except Refusal as refusal:
        raise FoldFailed(refusal.reason, str(refusal)) from refusal
    return FoldAnswer(
        state=state,
        model=calls.said[-1].model if calls.said else "",
        usage=_usage(calls.said),
        cost_usd=_cost(calls.said, calls.is_free),
        prompt_hash=_hash(calls.sent),
        focus=folding.limits.focus if calls.sent else "",
        custom_instructions=bool(calls.sent and folding.limits.summarizer_task),
        duration_ms=round((time.monotonic() - started) * 1000),
        soft_faults=faults,
    )


def _best(folding: FoldRequest, calls: _Calls) -> tuple[State, list[dict[str, Any]]]:
    """Return the state after the answer, or after the better of two if the first has faults; and its faults.

    The built-in summarizer is asked only once: its first answer is its best.
    """
    if not any(
        without_invisible(text).strip() for turn in folding.turns for text in (turn.user, turn.assistant)
    ):
        return folding.state, []  # nothing visible to fold: any answer would be made up, and would be refused
    first = _folded(folding, calls)
    if calls.is_free:
        return first.state, []
    found = _assess(folding, first)
    if not found.faults or not calls.may_repeat:
        return first.state, found.to_json()
    logger.info("summarizer asked again", extra={"chat": calls.chat_id, "faults": list(found.faults)})
    try:
        second = _folded(folding, calls, retry_instructions(found))
    except (UpstreamError, Refusal):
        return first.state, found.to_json()
    later = _assess(folding, second)
    if later.rank < found.rank:
        return second.state, later.to_json()
    return first.state, found.to_json()


def _assess(folding: FoldRequest, accepted: _Accepted) -> Assessment:
    least = settings.MEMORY_MIN_RETAINED
    return assess(
        folding.policy, folding.state, accepted.state, folding.turns, room=accepted.room, least=least
    )


def _folded(folding: FoldRequest, calls: _Calls, behind: str = "") -> _Accepted:
    """Return the state after one call. `behind` is appended to its material."""
    ask = folding.policy.ask(folding.state, folding.turns, folding.limits)
    answer = _call(calls, replace(ask, input=ask.input + behind))
    after = folding.policy.absorb(folding.state, folding.turns, answer, folding.limits)
    if calls.is_upstream:
        # The built-in summarizer only repeats what it was shown, and no fallback comes after it: never refused.
        answer_checks.check(folding.state, after, answer_checks.said_in(folding.turns))
    return _Accepted(after, ask.answer_tokens)


def _call(calls: _Calls, ask: Ask) -> Completion:
    prompt = _prompt(ask, calls)
    limit = output_limit(settings.SUMMARIZER, ask.max_output_tokens)
    variant = replace(settings.SUMMARIZER, max_output_tokens=limit)
    calls.sent.append(prompt)
    answer = calls.model.complete(prompt, variant, timeout=max(0.05, calls.until - time.monotonic()))
    calls.said.append(answer)
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


def _hash(sent: Sequence[Prompt]) -> str:
    """The version of the request: a hash of the instructions; repeats count once."""
    return prompt_hash("\n".join(dict.fromkeys(prompt.instructions for prompt in sent)))


def _usage(said: Sequence[Completion]) -> Usage:
    told = [answer.usage for answer in said if answer.usage is not None]
    return Usage(
        sum(usage.input_tokens for usage in told),
        sum(usage.cached_tokens for usage in told),
        sum(usage.output_tokens for usage in told),
    )


def _cost(said: Sequence[Completion], is_free: bool) -> Decimal | None:
    if is_free:
        return Decimal(0)
    price = settings.SUMMARIZER.price
    if price is None or any(answer.usage is None for answer in said):
        return None
    return storable_cost(sum((price.cost(answer.usage) for answer in said if answer.usage), Decimal(0)))
