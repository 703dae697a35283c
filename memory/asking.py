"""Asking a summarizer to fold turns into a state: one call, then an answer that was checked, or a failure.

What is folded, and what becomes of the answer, is not known here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from uuid import UUID

from django.conf import settings

from chatmemory.llm import registry
from chatmemory.llm.protocol import ChatModel, Completion, Prompt, PromptMessage, UpstreamError, Usage
from memory.policies import prompt_hash
from memory.policies.protocol import Ask, Policy, Refusal, State
from memory.turns import Turn


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


def ask_summarizer(
    policy: Policy, state: State, turns: Sequence[Turn], *, chat_id: UUID, builtin: bool, timeout: float
) -> Answer:
    """`state` with `turns` folded in, by the configured summarizer or the built-in one, in `timeout` seconds.

    Raises `FoldFailed` on a hard fault.
    """
    ask = policy.ask(state, turns, settings.MEMORY_LIMITS)
    prompt = _prompt(ask, chat_id, hosted=not builtin)
    model: ChatModel = registry.offline_model() if builtin else registry.chat_model()
    variant = replace(settings.SUMMARIZER, max_output_tokens=ask.max_output_tokens)
    started = time.monotonic()
    try:
        completion = model.complete(prompt, variant, timeout=timeout)
        new_state = policy.absorb(state, turns, completion, settings.MEMORY_LIMITS)
    except UpstreamError as error:
        raise FoldFailed(error.code, str(error)) from error
    except Refusal as refusal:
        raise FoldFailed(refusal.reason, str(refusal)) from refusal
    return Answer(
        state=new_state,
        model=completion.model,
        usage=completion.usage or Usage(0, 0, 0),
        cost_usd=_cost(completion, builtin or registry.is_offline()),
        prompt_hash=prompt_hash(":".join(prompt.hosted_prompt or (ask.instructions,))),
        duration_ms=round((time.monotonic() - started) * 1000),
    )


def _prompt(ask: Ask, chat_id: UUID, *, hosted: bool) -> Prompt:
    """Our own instructions, or the prompt kept at the provider where one is configured (Responses alone)."""
    use_hosted = hosted and settings.PROMPT_ID_SUMMARY_GLOBAL and settings.OPENAI_API_STYLE == "responses"
    return Prompt(
        messages=(PromptMessage("user", ask.input),),
        instructions="" if use_hosted else ask.instructions,
        cache_key=str(chat_id),
        hosted_prompt=(settings.PROMPT_ID_SUMMARY_GLOBAL, settings.PROMPT_VERSION_SUMMARY_GLOBAL)
        if use_hosted
        else None,
    )


def _cost(completion: Completion, is_free: bool) -> Decimal | None:
    if is_free:
        return Decimal(0)
    price = settings.SUMMARIZER.price
    return price.cost(completion.usage) if price and completion.usage else None
