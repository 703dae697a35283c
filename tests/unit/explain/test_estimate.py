"""Estimates of what a rebuild costs, compared with the bites that folding really takes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from chatmemory.llm.protocol import Price, Variant
from memory.explain.estimate import Estimate, FoldSpan, bites_of, estimate
from memory.history.turns import Turn, take_bite
from memory.limits import MemoryLimits
from memory.policies import POLICIES, State
from tests.unit.context.makers import turn_of

BITE = 6000
LIMITS = MemoryLimits()
PRICE = Price(input=Decimal(2), cached=Decimal(1), output=Decimal(8))
PRICED, UNPRICED = Variant("summarizer", "m", price=PRICE), Variant("summarizer", "m")


def span_of(turns: Sequence[Turn]) -> FoldSpan:
    replies = [turn.assistant_tokens for turn in turns]
    return FoldSpan(
        questions=len(turns),
        question_tokens=sum(turn.user_tokens for turn in turns),
        replies=len(turns),
        reply_tokens=sum(replies),
        reply_squares=float(sum(tokens**2 for tokens in replies)),
    )


def bites(turns: list[Turn]) -> int:
    """Count the bites that folding would take."""
    count = 0
    while turns:
        turns = turns[len(take_bite(turns, BITE)) :]
        count += 1
    return count


def some_turns(sizes: str, count: int) -> list[Turn]:
    chance = random.Random(f"{sizes} {count}")
    return [turn_of(number, SIZES[sizes](chance)) for number in range(count)]


SIZES: dict[str, Any] = {
    "alike and short": lambda chance: 60,
    "alike and long": lambda chance: 2500,
    "alike, more than half a bite": lambda chance: 3200,
    "spread": lambda chance: chance.randint(40, 1500),
    "mostly short, some huge": lambda chance: 4800 if chance.random() < 0.1 else 80,
    "of all sizes": lambda chance: int(min(5500, chance.lognormvariate(6, 1))),
}


@pytest.mark.parametrize("count", [1, 7, 40, 300])
@pytest.mark.parametrize("sizes", SIZES)
def test_bites_are_as_many_as_there_will_be(sizes: str, count: int) -> None:
    turns = some_turns(sizes, count)
    foretold, really = bites_of(span_of(turns), BITE), bites(turns)
    assert abs(foretold - really) <= max(1, really * 0.1)


def estimated(
    turns: Sequence[Turn], policy: str = "chunked", state: State | None = None, **told: Any
) -> Estimate:
    given: dict[str, Any] = {"summarizer": PRICED, "is_free": False, "call_ms": [2000, 90_000, 3000], **told}
    return estimate(span_of(turns), POLICIES[policy], state or State(), LIMITS, **given)


def test_nothing_to_read_takes_nothing() -> None:
    found = estimated([])
    assert (found.turns, found.calls, found.input_tokens, found.output_tokens) == (0, 0, 0, 0)
    assert [found.cost_usd, found.cost_most, found.minutes] == [0, 0, 0]


def test_it_counts_what_is_sent_with_each_call() -> None:
    turns = some_turns("alike and long", 20)
    bare = estimated(turns)
    assert (bare.turns, bare.calls) == (20, 10)
    assert bare.tokens == sum(turn.tokens for turn in turns)
    assert 10 * 200 < bare.input_tokens - bare.tokens < 10 * 600, "the instructions"
    known = estimated(turns, state=State("word " * 400))
    assert 9 * 380 < known.input_tokens - bare.input_tokens < 9 * 420, "the first has nothing to go on from"
    assert (bare.output_tokens, bare.output_most) == (10 * 500, 10 * 2000)


def test_the_most_includes_room_to_reason() -> None:
    turns = some_turns("alike and long", 20)
    bare, low = estimated(turns), estimated(turns, summarizer=replace(PRICED, reasoning_effort="low"))
    assert (low.output_tokens, low.output_most) == (bare.output_tokens, bare.output_most + 10 * 4000)


def test_the_price() -> None:
    found = estimated(some_turns("spread", 50))
    assert found.cost_usd == (found.input_tokens * 2 + found.output_tokens * 8) / Decimal(1_000_000)
    assert found.cost_most == (found.input_tokens * 2 + found.output_most * 8) / Decimal(1_000_000)
    unknown = estimated(some_turns("spread", 50), summarizer=UNPRICED)
    assert (unknown.cost_usd, unknown.cost_most) == (None, None)
    free = estimated(some_turns("spread", 50), summarizer=UNPRICED, is_free=True)
    assert [free.cost_usd, free.cost_most] == [0, 0]


def test_the_time_is_that_of_a_usual_call() -> None:
    turns = some_turns("alike and long", 20)
    assert estimated(turns).minutes == pytest.approx(10 * 3000 / 60_000)
    assert estimated(turns, call_ms=[]).minutes is None


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_tells_what_a_call_is(policy: str) -> None:
    found = estimated(some_turns("spread", 20), policy)
    assert found.calls == bites_of(span_of(some_turns("spread", 20)), BITE)
    assert found.input_tokens > found.tokens
    assert 0 < found.output_tokens < found.output_most
