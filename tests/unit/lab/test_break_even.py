"""Costs over turns, and the turn from which a policy is cheaper than sending everything."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from chatmemory.llm.protocol import Variant
from memory.lab.billing import BilledRequest, everything
from memory.lab.comparison.break_even import (
    FEWEST,
    TIMES,
    BreakEven,
    Growth,
    break_even,
    growth_of,
    is_steady,
)
from memory.lab.conversation import Conversation, Exchange
from memory.lab.measures import SummarizerCall
from tests.unit.lab.makers import MODELS, TALK, run_of, turn

LONG = Conversation("long", "", tuple(Exchange(f"Question {n}. " * 40, "Answer. " * 40) for n in range(40)))


def test_the_last_of_the_costs_is_the_bill() -> None:
    found = growth_of(TALK, [run_of(turn(5, 90), turn(5, 95), calls=(SummarizerCall(1, 600, 50),))], MODELS)
    price = MODELS.replies.price
    assert price is not None
    assert found.unit == "USD"
    (way,) = found.ways
    # At 1 USD per million tokens sent and 10 per million received: replies of 10 tokens, and one summarizer call of 600
    # in and 50 out after turn 2.
    assert way.warm == pytest.approx((0.00019, 0.00019 + 0.000195 + 0.0011))
    whole = [float(one.input + 10 * one.output) / 1e6 for one in everything(TALK)]
    assert found.everything.warm == pytest.approx((whole[0], sum(whole)))


def test_a_cold_cache_costs_the_full_price_and_a_warm_one_less() -> None:
    run = run_of(*(turn(900, 2000, prefix=1800) for _ in LONG.exchanges))
    found = growth_of(LONG, [run], MODELS)
    for way in (found.everything, *found.ways):
        assert all(cold >= warm for warm, cold in zip(way.warm, way.cold, strict=True))
        assert way.cold[-1] > 1.5 * way.warm[-1]
        assert all(later > earlier for earlier, later in pairwise(way.warm))


@pytest.mark.parametrize("unknown", ["replies", "summarizer"])
def test_without_a_price_tokens_are_counted(unknown: str) -> None:
    mystery = Variant("x", "mystery")
    models = replace(MODELS, replies=mystery) if unknown == "replies" else replace(MODELS, summarizer=mystery)
    run = run_of(turn(5, 90), turn(5, 95), calls=(SummarizerCall(0, 600, 50), SummarizerCall(0, 60, 5)))
    found = growth_of(TALK, [run], models)
    assert (found.unit, found.ways[0].warm) == ("tokens", (100 + 715, 815 + 105))
    assert found.ways[0].warm == found.ways[0].cold


def test_a_summarizer_that_was_not_called_needs_no_price() -> None:
    models = replace(MODELS, summarizer=Variant("x", "mystery"))
    assert growth_of(TALK, [run_of(turn(), turn())], models).unit == "USD"


def test_it_goes_through_json() -> None:
    found = growth_of(TALK, [run_of(turn(), turn()), run_of(turn(5), turn(9), policy="card")], MODELS)
    assert Growth.from_json(json.loads(json.dumps(found.to_json()))) == found


# Break-even


def met(costs: list[float], without: list[float], slope: float = 1.0, *, is_steady: bool = True) -> BreakEven:
    return break_even(costs, without, slope, is_steady=is_steady)


def test_always_and_since() -> None:
    assert met([1, 1, 1], [2, 2, 2]) == BreakEven("always", 1)
    assert met([3, 1, 1], [2, 2, 2]) == BreakEven("since", 3)  # equal at turn 2
    assert met([9, 1, 1, 1, 9, 1, 1], [3, 4, 5, 6, 7, 8, 9]) == BreakEven("since", 3)


def test_what_was_cheaper_for_a_while_is_not_since_then() -> None:
    assert met([1, 9, 1, 1, 1], [2, 2, 9, 9, 9]).turn == 3
    assert met([1, 9], [2, 2]) == BreakEven("unknown")


def test_what_is_expected_is_what_comes() -> None:
    """The turn forecast from the first part is the turn found when the same costs are continued to the end."""
    without = [float(n) for n in range(200)]
    costs = [60.0] * 200
    foreseen = met(costs[:40], without[:40])
    came = met(costs, without)
    assert (foreseen.kind, came.kind) == ("expected", "since")
    assert abs(foreseen.turn - came.turn) <= 1


def test_folds_that_come_now_and_then_are_spread() -> None:
    without = [float(n) for n in range(400)]
    costs = [140.0 if n % 10 == 9 else 50.0 for n in range(400)]
    foreseen, came = met(costs[:60], without[:60]), met(costs, without)
    assert abs(foreseen.turn - came.turn) <= came.turn // 10


def test_nothing_is_foreseen_of_few_turns_or_of_a_policy_that_still_grows() -> None:
    few = FEWEST - 1
    assert met([5.0] * few, [1.0] * few) == BreakEven("unknown")
    assert met([5.0] * 40, [1.0] * 40, is_steady=False) == BreakEven("unknown")
    assert met([], []) == BreakEven("unknown")


def test_far_away_is_later() -> None:
    assert met([500.0] * 10, [1.0] * 10, slope=0.001) == BreakEven("later", 10 * TIMES)


def test_a_policy_is_steady_when_it_sends_clearly_less() -> None:
    whole = [BilledRequest(100 * n, 0, 0) for n in range(1, 21)]
    assert is_steady([BilledRequest(500, 0, 0)] * 20, whole)
    assert not is_steady(whole, whole)


def test_a_long_chat_is_cheaper_with_memory_and_sooner_so_with_a_cold_cache() -> None:
    run = run_of(*(turn(900, min(2500, one.input), prefix=0) for one in everything(LONG)))
    (way,) = growth_of(LONG, [run], MODELS).ways
    assert way.meets_warm is not None
    assert way.meets_cold is not None
    assert way.meets_cold.kind in ("always", "since")
    assert way.meets_warm.kind == "expected"
    assert way.meets_warm.turn > len(LONG.exchanges) > way.meets_cold.turn
