"""An estimate of what folding a part of a chat will take, before it is done, from counts and limits. Pure.

The texts are not read: how turns fall into bites is derived from their number and spread only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from chatmemory.llm.protocol import Price, Usage, Variant
from chatmemory.llm.reasoning import output_limit
from chatmemory.text.tokens import MESSAGE_OVERHEAD, count_tokens
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.policies.numbers import numbers_in
from memory.policies.protocol import Policy, State


@dataclass(frozen=True, slots=True)
class FoldSpan:
    """Counts of the messages to read: those with text, from users and replies, giants counted as long as a bite."""

    questions: int
    question_tokens: int
    replies: int
    reply_tokens: int
    reply_squares: float
    """Sum of the squares of the replies' tokens, from which their variance is computed."""

    @property
    def turns(self) -> int:
        """The approximate number of turns: that of the questions."""
        return max(self.questions, min(1, self.replies))

    @property
    def tokens(self) -> int:
        """The cost of the turns in tokens, including per-message overhead."""
        messages = self.questions + self.replies
        return self.question_tokens + self.reply_tokens + messages * MESSAGE_OVERHEAD


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate. `tokens` counts the turns to fold; `input_tokens` also counts everything else that calls send."""

    turns: int
    tokens: int
    calls: int
    input_tokens: int
    output_tokens: int
    """If answers are as long as requested."""
    output_most: int
    """If answers are as long as their limit."""
    is_free: bool
    """The built-in summarizer does it."""
    cost_usd: Decimal | None
    """None if the price is unknown."""
    cost_most: Decimal | None
    minutes: float | None
    """None if no duration of an earlier call is known."""


@dataclass(frozen=True, slots=True)
class EstimatedCall:
    """The tokens of one call besides the turns in it: instructions and state sent, and the answer."""

    input_tokens: int
    output_tokens: int
    output_most: int


def estimate(
    span: FoldSpan,
    policy: Policy,
    state: State,
    limits: MemoryLimits,
    *,
    summarizer: Variant,
    is_free: bool,
    call_ms: Sequence[int],
) -> Estimate:
    """Estimate what folding `span` by `policy` takes, with a state about as large as `state` sent along.

    `call_ms` are the durations of the summarizer's latest calls.
    """
    bites, again = bites_of(span, limits.bite_tokens), _calls_a_bite(policy, limits)
    calls = bites * again
    first, later = (_call(policy, before, limits, summarizer) for before in (State(), state))
    sent = (
        span.tokens * again + (first.input_tokens + (bites - 1) * later.input_tokens) * again if bites else 0
    )
    out, most = calls * later.output_tokens, calls * later.output_most
    return Estimate(
        turns=span.turns,
        tokens=span.tokens,
        calls=calls,
        input_tokens=sent,
        output_tokens=out,
        output_most=most,
        is_free=is_free,
        cost_usd=_cost(sent, out, summarizer.price, is_free=is_free),
        cost_most=_cost(sent, most, summarizer.price, is_free=is_free),
        minutes=bites * median(call_ms) / 60_000 if call_ms else None,
    )


def bites_of(span: FoldSpan, bite_tokens: int) -> int:
    """Estimate the number of bites: at the end of each, the room that the next turn did not fit into stays empty.

    That is half a turn on average, weighted by length, as a border is more likely to fall into a long turn.
    """
    if not span.turns or not span.tokens:
        return 0
    mean = span.tokens / span.turns
    question = span.question_tokens / span.turns + MESSAGE_OVERHEAD
    reply = span.reply_tokens / span.turns + MESSAGE_OVERHEAD
    spread = max(0.0, span.reply_squares / span.turns - (span.reply_tokens / span.turns) ** 2)
    met = ((question + reply) ** 2 + spread) / mean
    # If all turns are about equally long, a whole number of them fills a bite.
    alike = spread < (mean / 10) ** 2
    filled = max(1, bite_tokens // math.ceil(mean)) * mean if alike else bite_tokens - met / 2
    return math.ceil(span.tokens / min(bite_tokens, max(filled, mean)))


def _calls_a_bite(policy: Policy, limits: MemoryLimits) -> int:
    """The number of calls for a bite: more than one if the policy requests the parts of its state one by one."""
    return int(getattr(numbers_in(limits, policy.name, policy.numbers), "calls", 1))


def _call(policy: Policy, state: State, limits: MemoryLimits, summarizer: Variant) -> EstimatedCall:
    """The tokens of a call besides its turns, measured on the request for a nearly empty turn."""
    ask = policy.ask(state, (_NEXT_TO_NOTHING,), limits)
    if ask is None:
        return EstimatedCall(0, 0, 0)
    return EstimatedCall(
        count_tokens(ask.instructions_under(limits)) + count_tokens(ask.input),
        ask.answer_tokens,
        output_limit(summarizer, ask.max_output_tokens),
    )


def _cost(sent: int, out: int, price: Price | None, *, is_free: bool) -> Decimal | None:
    if is_free:
        return Decimal(0)
    return None if price is None else price.cost(Usage(sent, 0, out))


_NEXT_TO_NOTHING = Turn(1, 2, "?", "!", False, 1, 1, (), None)
