"""The cost of each way to send a conversation after each of its turns, and when a policy becomes cheaper. Pure.

All costs are computed twice: with the provider's cache as modelled in `billing` (warm), and without any cache (cold),
as after long pauses. If a price is unknown, costs are in tokens instead of USD, and the cache makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from itertools import accumulate
from typing import Any, Literal

from chatmemory.llm.protocol import Price, Usage
from memory.lab.billing import BilledRequest, cached, everything
from memory.lab.conversation import Conversation
from memory.lab.measures import Run
from memory.lab.outcome import Models

Unit = Literal["USD", "tokens"]
Cache = Literal["warm", "cold"]

FEWEST = 8
"""The fewest turns from which costs are extrapolated."""
STEADY = 0.8
"""A policy is bounded if its last prompts have at most this share of the tokens of sending everything."""
TIMES = 10
"""Costs are extrapolated to a chat that is this many times as long."""
SAME = 1e-12


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The turn from which a policy has cost less than sending everything.

    `always`: from the first. `since`: from turn `turn` on, as measured. `expected`: from about turn `turn` on, if the
    chat continues as it did. `later`: not by turn `turn`, which is the limit of the extrapolation. `unknown`: too few
    turns, or the policy still sends nearly everything.
    """

    kind: Literal["always", "since", "expected", "later", "unknown"]
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Course:
    """The cumulative cost of one way after each turn."""

    name: str
    warm: tuple[float, ...]
    cold: tuple[float, ...]
    meets_warm: BreakEven | None = None
    """None for sending everything itself."""
    meets_cold: BreakEven | None = None


@dataclass(frozen=True, slots=True)
class Growth:
    """The courses of all ways, in one unit. `ways` are the policies."""

    unit: Unit
    everything: Course
    ways: tuple[Course, ...]

    @property
    def turns(self) -> int:
        """The number of turns played."""
        return len(self.everything.warm)

    def to_json(self) -> dict[str, Any]:
        """The values as JSON: numbers, and the names of policies."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Growth:
        """The value that `to_json` wrote."""
        return cls(data["unit"], _way(data["everything"]), tuple(_way(one) for one in data["ways"]))


def growth_of(talk: Conversation, runs: Sequence[Run], models: Models) -> Growth:
    """Compute the costs over the turns of `talk`, all of which each of `runs` played."""
    unit = _unit(runs, models)
    whole = everything(talk)
    without = _costs(whole, {}, models, unit)
    ways = [_compared(run, whole, without, models, unit) for run in runs]
    return Growth(unit, Course("everything", _summed(without[0]), _summed(without[1])), tuple(ways))


def _unit(runs: Sequence[Run], models: Models) -> Unit:
    is_folded = any(run.calls for run in runs)
    is_known = models.replies.price and (models.summarizer.price or not is_folded)
    return "USD" if is_known else "tokens"


def _compared(
    run: Run,
    whole: Sequence[BilledRequest],
    without: tuple[list[float], list[float]],
    models: Models,
    unit: Unit,
) -> Course:
    calls: dict[int, Usage] = {}
    for call in run.calls:
        before = calls.get(call.turn, Usage(0, 0, 0))
        calls[call.turn] = Usage(before.input_tokens + call.input, 0, before.output_tokens + call.output)
    costs = _costs(run.requests, calls, models, unit)
    steady = is_steady(run.requests, whole)
    slopes = _slopes(whole, models.replies.price if unit == "USD" else None)
    meets = [
        break_even(one, other, slope, is_steady=steady)
        for one, other, slope in zip(costs, without, slopes, strict=True)
    ]
    return Course(run.policy, _summed(costs[0]), _summed(costs[1]), *meets)


def _costs(
    requests: Sequence[BilledRequest], calls: Mapping[int, Usage], models: Models, unit: Unit
) -> tuple[list[float], list[float]]:
    """The cost of each turn, warm and cold."""
    warm: list[float] = []
    cold: list[float] = []
    for at, one in enumerate(requests):
        fold = _cost(calls[at], models.summarizer.price, unit) if at in calls else 0.0
        for costs, kept in ((warm, cached(one.prefix)), (cold, 0)):
            costs.append(fold + _cost(Usage(one.input, kept, one.output), models.replies.price, unit))
    return warm, cold


def _cost(usage: Usage, price: Price | None, unit: Unit) -> float:
    if unit == "tokens" or price is None:
        return usage.input_tokens + usage.output_tokens
    return float(price.cost(usage))


def _summed(costs: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(f"{total:.9g}") for total in accumulate(costs))


def _slopes(whole: Sequence[BilledRequest], price: Price | None) -> tuple[float, float]:
    """How much more each turn of sending everything costs than the turn before, warm and cold."""
    tokens = (whole[-1].input - whole[0].input) / (len(whole) - 1) if len(whole) > 1 else 0.0
    if price is None:
        return tokens, tokens
    each = [float(per / Decimal(1_000_000)) for per in (price.cached, price.input)]
    return tokens * each[0], tokens * each[1]


def is_steady(requests: Sequence[BilledRequest], whole: Sequence[BilledRequest]) -> bool:
    """Whether the prompts of a policy, judged by their last quarter, no longer grow with the chat."""
    last = max(1, len(whole) // 4)
    sent, said = (sum(one.input for one in many[-last:]) for many in (requests, whole))
    return sent <= STEADY * said


def break_even(
    costs: Sequence[float], without: Sequence[float], slope: float, *, is_steady: bool
) -> BreakEven:
    """Find the turn from which a policy is cheaper, given the cost of each turn with and without it.

    `slope` is how much more each turn costs than the turn before it without the policy.
    """
    ahead = list(accumulate(one - other for one, other in zip(costs, without, strict=True)))
    not_cheaper = [at for at, more in enumerate(ahead) if more > -SAME]
    if ahead and not not_cheaper:
        return BreakEven("always", 1)
    if ahead and ahead[-1] < -SAME:
        return BreakEven("since", not_cheaper[-1] + 2)
    if len(ahead) < FEWEST or not is_steady:
        return BreakEven("unknown")
    return _expected(ahead, slope)


def _expected(ahead: Sequence[float], slope: float) -> BreakEven:
    """Extrapolate the mean of the second half, over which folds are spread evenly, less `slope` more each turn."""
    count = len(ahead)
    half = count // 2
    mean, middle = (ahead[-1] - ahead[half - 1]) / (count - half), (half + 1 + count) / 2
    more = ahead[-1]
    for number in range(count + 1, TIMES * count + 1):
        more += mean - slope * (number - middle)
        if more < 0:
            return BreakEven("expected", number)
    return BreakEven("later", TIMES * count)


def _way(data: Mapping[str, Any]) -> Course:
    meets = [BreakEven(**one) if one else None for one in (data["meets_warm"], data["meets_cold"])]
    return Course(data["name"], tuple(data["warm"]), tuple(data["cold"]), *meets)
