"""The charts of the overview, with their tables, from figures by day.

Pure: rows come as values, one for each day and model variant, or day, kind and policy; days without a row are gaps or
zeros, depending on the chart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from memory.admin.overview.sentences import MOST_BAD
from memory.admin.overview.totals import SUMMARIZER, Row, of_kind, tokens
from memory.usage.figures import Number, short, usd

OTHERS = "others"
MOST_SERIES = 6
"""The most lines of a chart that can be distinguished without colour; the smallest are combined as `others`."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure as a number (None: there is none) and as text."""

    value: float | None
    text: str

    @property
    def raw(self) -> str:
        """The value for scripts, independent of the locale."""
        return "" if self.value is None else str(self.value)


class Day(NamedTuple):
    """A day as scripts read it, and as people do."""

    iso: str
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart and the table beneath it: one row per day, one column per series."""

    name: str
    title: str
    unit: str
    """`tokens`, `USD`, `s`, `%`, or "" for counts."""
    columns: Sequence[str]
    rows: Sequence[tuple[Day, Sequence[Cell]]]


def charts_of(days: Sequence[date], usage: Sequence[Row], folds: Sequence[Row], *, cost: bool) -> list[Chart]:
    """The charts of the overview, of these days; those of cost only with `cost`."""
    found = [_by_variant("tokens", "Tokens per day, by model variant", "tokens", days, usage, folds, tokens)]
    if cost:
        found.append(_by_variant("cost", "Cost per day, by model variant", "USD", days, usage, folds, _cost))
    if any(row["cards"] for row in usage):
        found.append(_cards(days, usage))
    made, rebuilt = of_kind(folds, "fold"), of_kind(folds, "rebuild")
    found += [
        _chart(
            "saved",
            "Sent as memory, against whole chats",
            "tokens",
            days,
            {
                "sent as memory": _sums(usage, lambda row: row["memory_tokens"]),
                "whole chats": _sums(usage, lambda row: row["history_tokens"]),
            },
        ),
        _chart(
            "folds",
            "Summary updates per day",
            "",
            days,
            {
                "published": _sums(folds, lambda row: row["folds"]),
                "by the built-in summarizer": _sums(folds, lambda row: row["degraded"]),
                "failed attempts": _sums(folds, lambda row: row["failures"]),
            },
        ),
        _chart(
            "duration",
            "How long a summary update took, mean of the day",
            "s",
            days,
            {
                "an update": _means(made, "duration_ms", 1000),
                "a rebuild": _means(rebuilt, "duration_ms", 1000),
            },
            gaps=True,
        ),
        _chart(
            "kept",
            "What summary updates kept of names, numbers and dates, mean of the day",
            "%",
            days,
            {"an update": _means(made, "share_sum", 0.01), "a rebuild": _means(rebuilt, "share_sum", 0.01)},
            gaps=True,
        ),
    ]
    return found


def _cards(days: Sequence[date], usage: Sequence[Row]) -> Chart:
    """The share of replies whose memory card could be used, and the least that it should be."""
    asked, kept = _sums(usage, lambda row: row["cards"]), _sums(usage, lambda row: row["cards_kept"])
    shares = {day: 100 * kept[day] / count for day, count in asked.items() if count}
    least = round(100 * (1 - MOST_BAD), 3)
    series = {"good cards": shares, f"least, {least:.0f}%": dict.fromkeys(days, least)}
    return _chart("cards", "Replies whose memory card was good", "%", days, series, gaps=True)


def _by_variant(
    name: str,
    title: str,
    unit: str,
    days: Sequence[date],
    usage: Sequence[Row],
    folds: Sequence[Row],
    figure: Callable[[Row], Number],
) -> Chart:
    series: dict[str, dict[date, float]] = {}
    for variant in {row["model_variant"] for row in usage}:
        series[variant] = _sums((row for row in usage if row["model_variant"] == variant), figure)
    if folds:
        series[SUMMARIZER] = _sums(folds, figure)
    ranked = sorted(series, key=lambda one: (-sum(series[one].values()), one))
    shown = ranked if len(ranked) <= MOST_SERIES else ranked[: MOST_SERIES - 1]
    columns = {one: series[one] for one in shown}
    if rest := ranked[len(shown) :]:
        columns[OTHERS] = {
            day: sum(series[one].get(day, 0) for one in rest) for one in rest for day in series[one]
        }
    return _chart(name, title, unit, days, columns)


def _chart(
    name: str,
    title: str,
    unit: str,
    days: Sequence[date],
    series: Mapping[str, Mapping[date, float]],
    *,
    gaps: bool = False,
) -> Chart:
    """Build a chart. With `gaps`, a day without a figure has none, otherwise 0."""
    empty = None if gaps else 0.0
    kept = {label: by_day for label, by_day in series.items() if by_day or not gaps}
    rows = [(_told(day), [_cell(by_day.get(day, empty), unit) for by_day in kept.values()]) for day in days]
    return Chart(name, title, unit, list(kept), rows)


@lru_cache(maxsize=100)
def _told(day: date) -> Day:
    return Day(day.isoformat(), f"{day.day} {day:%b %Y}")


def _cell(value: float | None, unit: str) -> Cell:
    if value is None:
        return Cell(None, "–")
    if unit == "USD":
        return Cell(value, usd(value).removeprefix("$"))
    if unit in ("s", "%"):
        return Cell(round(value, 3), f"{value:.1f}")
    return Cell(value, short(value))


def _sums(rows: Iterable[Row], figure: Callable[[Row], Number]) -> dict[date, float]:
    found: dict[date, float] = defaultdict(float)
    for row in rows:
        found[row["day"]] += float(figure(row))
    return dict(found)


def _means(rows: Sequence[Row], name: str, unit: float) -> dict[date, float]:
    """By day, the mean of `name` over the folds, divided by `unit`."""
    counts = _sums(rows, lambda row: row["folds"])
    sums = _sums(rows, lambda row: row[name])
    return {day: sums[day] / count / unit for day, count in counts.items() if count}


def _cost(row: Row) -> Number:
    cost: Number = row["cost_usd"]
    return cost
