"""Cost over turns as two panels, warm and cold cache, with the same figures as a table. Pure.

Coordinates are within a panel of `WIDTH` by `HEIGHT`, from which a template writes the SVG. Both panels have the same
scale. Lines differ by their dashes first, by colour second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from memory.admin.comparison.verdict import amount
from memory.lab.comparison.break_even import BreakEven, Cache, Course, Growth, Unit

WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 56, 350, 10, 200
"""The edges of the plotted area."""
MOST_POINTS = 120
"""The most points of a line; more would not be visible."""
MOST_ROWS = 12
"""The most rows of the table."""
TICKS = 4


class Tick(NamedTuple):
    """A position on an axis, and its label."""

    at: float
    text: str


class Curve(NamedTuple):
    """One way to send the chat: its name, the number of its style, and its points as SVG expects them."""

    name: str
    look: int
    points: str


class Panel(NamedTuple):
    """The plot for one state of the cache. `told` describes it in words, `meets` are the marked turns."""

    title: str
    told: str
    lines: Sequence[Curve]
    across: Sequence[Tick]
    up: Sequence[Tick]
    meets: Sequence[Tick]


@dataclass(frozen=True, slots=True)
class Plot:
    """Panels, the keys of their lines, and the table: one row per turn."""

    unit: Unit
    keys: Sequence[tuple[str, int]]
    panels: Sequence[Panel]
    columns: Sequence[str]
    rows: Sequence[tuple[int, Sequence[str]]]


def plot_of(growth: Growth) -> Plot | None:
    """Build the plot; None if there is no line to draw because fewer than two turns were played."""
    if growth.turns < 2 or not growth.ways:
        return None
    ways = [*growth.ways, growth.everything]
    caches: list[Cache] = ["warm", "cold"] if growth.unit == "USD" else ["warm"]
    most = max(way.warm[-1] if cache == "warm" else way.cold[-1] for way in ways for cache in caches)
    return Plot(
        growth.unit,
        [(way.name, look) for look, way in _looks(growth)],
        [_panel(growth, cache, most) for cache in caches],
        [f"{way.name}, {cache}" if len(caches) > 1 else way.name for way in ways for cache in caches],
        [(at + 1, _row(ways, caches, at, growth.unit)) for at in sampled(growth.turns, MOST_ROWS)],
    )


def sampled(count: int, most: int) -> list[int]:
    """At most `most` of the indexes 0 to `count` - 1, evenly spaced, including the first and the last."""
    if count <= most:
        return list(range(count))
    return sorted({round(step * (count - 1) / (most - 1)) for step in range(most)})


def nice_steps(most: float) -> list[float]:
    """Round values from 0 on, about `TICKS` of them, the last one at or above `most`."""
    rough = most / TICKS if most > 0 else 1.0
    size = 10.0 ** math.floor(math.log10(rough))
    step = size * next((one for one in (1, 2, 2.5, 5) if one * size >= rough), 10)
    return [step * number for number in range(math.ceil(most / step - 1e-9) + 1)] if most > 0 else [0.0, step]


def _looks(growth: Growth) -> list[tuple[int, Course]]:
    """Each way with the number of its style: 0 is that of sending everything."""
    return [*enumerate(growth.ways, 1), (0, growth.everything)]


def _costs(way: Course, cache: Cache) -> Sequence[float]:
    return way.warm if cache == "warm" else way.cold


def _panel(growth: Growth, cache: Cache, most: float) -> Panel:
    steps = nice_steps(most)
    top = steps[-1]
    places = sampled(growth.turns, MOST_POINTS)
    lines = [
        Curve(way.name, look, _points(_costs(way, cache), places, growth.turns, top))
        for look, way in _looks(growth)
    ]
    return Panel(
        title=_title(growth.unit, cache),
        told=_told(growth, cache),
        lines=lines,
        across=[Tick(_x(at, growth.turns), str(at + 1)) for at in sampled(growth.turns, 5)],
        up=[Tick(_y(step, top), _short(step, growth.unit)) for step in steps],
        meets=[
            Tick(_x(met.turn - 1, growth.turns), f"{way.name} is cheaper from turn {met.turn} on")
            for way in growth.ways
            if (met := _met(way, cache)) and met.kind == "since"
        ],
    )


def _met(way: Course, cache: Cache) -> BreakEven | None:
    return way.meets_warm if cache == "warm" else way.meets_cold


def _title(unit: Unit, cache: Cache) -> str:
    return f"With a {cache} cache" if unit == "USD" else "Total tokens after each turn"


def _told(growth: Growth, cache: Cache) -> str:
    ends = [f"{way.name} {amount(_costs(way, cache)[-1], growth.unit)}" for _, way in _looks(growth)]
    return f"After {growth.turns:,} turns: {', '.join(ends)}."


def _points(costs: Sequence[float], places: Sequence[int], turns: int, top: float) -> str:
    return " ".join(f"{_x(at, turns)},{_y(costs[at], top)}" for at in places)


def _x(at: int, turns: int) -> float:
    return round(LEFT + (RIGHT - LEFT) * at / (turns - 1), 1)


def _y(cost: float, top: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * cost / top, 1) if top else float(BOTTOM)


def _short(value: float, unit: Unit) -> str:
    if unit == "USD":
        return f"${value:.10f}".rstrip("0").rstrip(".") if value else "$0"
    return f"{value / 1000:,.10g} k" if value >= 1000 else f"{value:,.0f}"


def _row(ways: Sequence[Course], caches: Sequence[Cache], at: int, unit: Unit) -> list[str]:
    return [amount(_costs(way, cache)[at], unit).removesuffix(" tokens") for way in ways for cache in caches]
