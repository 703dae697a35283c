"""Asking a summarizer to fold turns into a state: a call or a few, then answers that were checked, or a failure.

What is folded, and what becomes of the state, is not known here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from django.conf import settings

from chatmemory.llm import registry
from chatmemory.llm.protocol import ChatModel, Completion, Prompt, PromptMessage, UpstreamError, Usage
from memory.limits import MemoryLimits
from memory.policies import prompt_hash
from memory.policies.protocol import Ask, Policy, Refusal, State
from memory.turns import Turn

MOST_CALLS = 6
"""For one fold. A policy that wants more would never end."""


@dataclass(frozen=True, slots=True)
class Folding:
    """What is to be folded into what, by which policy and which numbers."""

    policy: Policy
    state: State
    turns: Sequence[Turn]
    limits: MemoryLimits


@dataclass(frozen=True, slots=True)
class Answer:
    """A state with some turns folded in, and what that took."""

    state: State
    model: str
    usage: Usage
    cost_usd: Decimal | None
    """None where the price is not known."""
    prompt_hash: str
    duration_ms: int


class FoldFailed(Exception):
    """The summarizer gave nothing to go by. `code` is an upstream's or a refusal's; the message is ours."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True)
class _Conversation:
    """The calls of one fold: what was sent and what came back."""

    model: ChatModel
    is_free: bool
    sent: list[Prompt] = field(default_factory=list)
    answers: list[Completion | None] = field(default_factory=list)


def ask_summarizer(folding: Folding, *, chat_id: str, builtin: bool, timeout: float) -> Answer:
    """`folding.state` with its turns folded in, by the configured summarizer or the built-in one.

    All calls together take at most `timeout` seconds. Raises `FoldFailed` on a hard fault.
    """
    started = time.monotonic()
    model: ChatModel = registry.offline_model() if builtin else registry.chat_model()
    calls = _Conversation(model, is_free=builtin or registry.is_offline())
    try:
        state = _folded(folding, calls, chat_id, started + timeout, hosted=not builtin)
    except UpstreamError as error:
        raise FoldFailed(error.code, str(error)) from error
    except Refusal as refusal:
        raise FoldFailed(refusal.reason, str(refusal)) from refusal
    said = [answer for answer in calls.answers if answer is not None]
    return Answer(
        state=state,
        model=said[-1].model if said else "",
        usage=_usage(said),
        cost_usd=_cost(said, calls.is_free),
        prompt_hash=_hash(calls.sent),
        duration_ms=round((time.monotonic() - started) * 1000),
    )


def _folded(folding: Folding, calls: _Conversation, chat_id: str, until: float, *, hosted: bool) -> State:
    policy, state, turns, limits = folding.policy, folding.state, folding.turns, folding.limits
    for _ in range(MOST_CALLS):
        ask = policy.ask(state, turns, limits, calls.answers)
        if ask is None:
            break
        _call(calls, ask, chat_id, until, hosted=hosted)
    return policy.absorb(state, turns, calls.answers, limits)


def _call(calls: _Conversation, ask: Ask, chat_id: str, until: float, *, hosted: bool) -> None:
    """One call, its answer added to `calls`: None where it failed and the policy can do without."""
    prompt = _prompt(ask, chat_id, hosted=hosted)
    variant = replace(settings.SUMMARIZER, max_output_tokens=ask.max_output_tokens)
    calls.sent.append(prompt)
    try:
        left = max(0.05, until - time.monotonic())
        calls.answers.append(calls.model.complete(prompt, variant, timeout=left))
    except UpstreamError:
        if not ask.is_optional:
            raise
        calls.answers.append(None)


def _prompt(ask: Ask, chat_id: str, *, hosted: bool) -> Prompt:
    """Our own instructions, or the prompt kept at the provider where one is configured (Responses alone)."""
    use_hosted = (
        hosted
        and ask.takes_hosted
        and settings.PROMPT_ID_SUMMARY_GLOBAL
        and settings.OPENAI_API_STYLE == "responses"
    )
    return Prompt(
        messages=(PromptMessage("user", ask.input),),
        instructions="" if use_hosted else ask.instructions,
        cache_key=chat_id,
        hosted_prompt=(settings.PROMPT_ID_SUMMARY_GLOBAL, settings.PROMPT_VERSION_SUMMARY_GLOBAL)
        if use_hosted
        else None,
        schema=ask.schema,
        answer_tokens=ask.answer_tokens,
    )


def _hash(sent: Sequence[Prompt]) -> str:
    """The version of all that was asked: of the instructions, or of the hosted prompt's name; repeats count once."""
    versions = (":".join(prompt.hosted_prompt or (prompt.instructions,)) for prompt in sent)
    return prompt_hash("\n".join(dict.fromkeys(versions)))


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
    return sum((price.cost(answer.usage) for answer in said if answer.usage), Decimal(0))
