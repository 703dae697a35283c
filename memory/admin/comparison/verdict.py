"""The result of a comparison in a sentence, and in one short table. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from memory.lab.comparison.break_even import BreakEven, Course, Growth, Unit

EVERYTHING = "sending everything"
CLOSE = 0.005
"""Costs whose relative difference is at most this are called equal."""


class Glance(NamedTuple):
    """The cost of one way, and its ratio to the cost of sending everything, with a warm and a cold cache."""

    name: str
    warm: str
    times_warm: str
    cold: str
    times_cold: str


def verdict(growth: Growth) -> str:
    """Say which way is cheapest, by how much, and from which turn a policy is cheaper; "" if nothing was played."""
    if not growth.ways or not growth.turns:
        return ""
    best = min(growth.ways, key=lambda way: way.warm[-1])
    return f"{_now(growth, best)} {_from_when(growth, best)}"


def at_a_glance(growth: Growth) -> list[Glance]:
    """One row per way, cheapest first."""
    if not growth.turns:
        return []
    ways = sorted((*growth.ways, growth.everything), key=lambda way: way.warm[-1])
    whole = growth.everything
    return [
        Glance(
            way.name,
            amount(way.warm[-1], growth.unit),
            _times(way.warm[-1], whole.warm[-1]),
            amount(way.cold[-1], growth.unit),
            _times(way.cold[-1], whole.cold[-1]),
        )
        for way in ways
    ]


def amount(value: float, unit: Unit) -> str:
    """Format as `$0.0224`, with three digits, or as `12,345 tokens`."""
    if unit == "tokens":
        return f"{value:,.0f} tokens"
    if value >= 1:
        return f"${value:,.2f}"
    return f"${value:.{_digits(value)}f}" if value else "$0"


def _digits(value: float) -> int:
    """The number of decimal places that show three digits of an amount below 1."""
    places = 3
    while value < 10 ** (2 - places) and places < 9:
        places += 1
    return places


def _times(value: float, whole: float) -> str:
    return f"{value / whole:.2f} ×" if whole else "–"


def _now(growth: Growth, best: Course) -> str:
    at = f"At {growth.turns:,} turn{'s' if growth.turns > 1 else ''},"
    mine, whole = best.warm[-1], growth.everything.warm[-1]
    told = [amount(value, growth.unit) for value in (mine, whole)]
    if abs(mine - whole) <= CLOSE * whole:
        does = "costs the same as" if growth.unit == "USD" else "takes as many tokens as"
        return f"{at} {best.name} {does} {EVERYTHING}: {told[0]}."
    names = [best.name, EVERYTHING]
    if mine > whole:
        names, told = names[::-1], told[::-1]
    return f"{at} {names[0]} {_is_least(growth)}: {told[0]} against {told[1]} for {names[1]}."


def _is_least(growth: Growth) -> str:
    several = len(growth.ways) > 1
    if growth.unit == "USD":
        return "is cheapest" if several else "is cheaper"
    return "takes the fewest tokens" if several else "takes fewer tokens"


def _from_when(growth: Growth, best: Course) -> str:
    warm, cold = best.meets_warm, best.meets_cold
    if warm is None or cold is None:
        return ""
    if growth.unit == "tokens":
        unpriced = "Prices are not known, so tokens are compared, summary updates included."
        return f"{_sentence(best.name, 'takes fewer tokens', [warm])} {unpriced}"
    meets = [warm] if warm == cold else [warm, cold]
    return _sentence(best.name, "is cheaper", meets)


def _sentence(name: str, better: str, meets: Sequence[BreakEven]) -> str:
    """Say from which turn it is better, with a warm cache and, if that differs, with a cold one."""
    if all(one.kind == "unknown" for one in meets):
        return f"It is too early to tell from which turn on {name} {better}."
    first, *others = meets
    said = _first(name, better, first) + "".join(f"; with a cold cache, {_also(one)}" for one in others)
    foreseen = " This assumes that the chat continues as before." if _is_foreseen(meets) else ""
    return f"{said}.{foreseen}"


def _first(name: str, better: str, met: BreakEven) -> str:
    if met.kind == "unknown":
        return f"It is too early to tell from which turn on {name} {better}"
    if met.kind == "later":
        return f"Up to turn {met.turn:,}, {name} {better.replace('is', 'is not').replace('takes', 'does not take')}"
    when = _when(met)
    return f"{when[0].upper()}{when[1:]}, {name} {better}"


def _also(met: BreakEven) -> str:
    if met.kind == "unknown":
        return "it is too early to tell"
    return f"not up to turn {met.turn:,}" if met.kind == "later" else f"it is {_when(met)}"


def _when(met: BreakEven) -> str:
    if met.kind == "always":
        return "from the first turn on"
    about = "about " if met.kind == "expected" else ""
    return f"from {about}turn {met.turn:,} on"


def _is_foreseen(meets: Sequence[BreakEven]) -> bool:
    return any(one.kind in ("expected", "later") for one in meets)
