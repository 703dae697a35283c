"""What folding a stretch of a chat will take, before it is done: an estimate from counts and limits. Pure.

Nothing is known of the texts: how turns fall into bites follows from their number and spread alone.
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
    """Counts of the messages that are to be read: those with text, users' and replies, giants as long as a bite."""

    questions: int
    question_tokens: int
    replies: int
    reply_tokens: int
    reply_squares: float
    """Sum of the squares of the replies' tokens: how unequal they are."""

    @property
    def turns(self) -> int:
        """About as many as there are questions."""
        return max(self.questions, min(1, self.replies))

    @property
    def tokens(self) -> int:
        """What the turns cost together."""
        messages = self.questions + self.replies
        return self.question_tokens + self.reply_tokens + messages * MESSAGE_OVERHEAD


@dataclass(frozen=True, slots=True)
class Estimate:
    """About what it will take. Tokens of turns are what is told anew; those of calls have all that is sent with it."""

    turns: int
    tokens: int
    calls: int
    input_tokens: int
    output_tokens: int
    """Of answers as long as they are asked for."""
    output_most: int
    """Of answers as long as they can be."""
    is_free: bool
    """The built-in summarizer does it."""
    cost_usd: Decimal | None
    """None where the price is not known."""
    cost_most: Decimal | None
    minutes: float | None
    """None where nothing is known of how long a call takes."""


@dataclass(frozen=True, slots=True)
class EstimatedCall:
    """What one call costs besides the turns in it: instructions and state sent, and the answer."""

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
    """What folding `span` by `policy` takes, with a state about as large as `state` sent along.

    `call_ms` is how long the summarizer's last calls took.
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
    """Into how many bites the turns will fall: in each, what the next turn did not fit into stays empty.

    That is half a turn, as turns are met by a border: long ones more often.
    """
    if not span.turns or not span.tokens:
        return 0
    mean = span.tokens / span.turns
    question = span.question_tokens / span.turns + MESSAGE_OVERHEAD
    reply = span.reply_tokens / span.turns + MESSAGE_OVERHEAD
    spread = max(0.0, span.reply_squares / span.turns - (span.reply_tokens / span.turns) ** 2)
    met = ((question + reply) ** 2 + spread) / mean
    # Where turns are all alike, a whole number of them fills a bite.
    alike = spread < (mean / 10) ** 2
    filled = max(1, bite_tokens // math.ceil(mean)) * mean if alike else bite_tokens - met / 2
    return math.ceil(span.tokens / min(bite_tokens, max(filled, mean)))


def _calls_a_bite(policy: Policy, limits: MemoryLimits) -> int:
    """Where a policy's numbers say that it asks for parts of its state one by one, as many."""
    return int(getattr(numbers_in(limits, policy.name, policy.numbers), "calls", 1))


def _call(policy: Policy, state: State, limits: MemoryLimits, summarizer: Variant) -> EstimatedCall:
    """What a call is besides its turns, read off the request for a turn of next to nothing."""
    ask = policy.ask(state, (_NEXT_TO_NOTHING,), limits)
    if ask is None:
        return EstimatedCall(0, 0, 0)
    return EstimatedCall(
        count_tokens(ask.instructions) + count_tokens(ask.input),
        ask.answer_tokens,
        output_limit(summarizer, ask.max_output_tokens),
    )


def _cost(sent: int, out: int, price: Price | None, *, is_free: bool) -> Decimal | None:
    if is_free:
        return Decimal(0)
    return None if price is None else price.cost(Usage(sent, 0, out))


_NEXT_TO_NOTHING = Turn(1, 2, "?", "!", False, 1, 1, (), None)
