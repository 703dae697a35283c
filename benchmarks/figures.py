"""Figures and their bars, and their layout as a table. Pure: knows nothing of how a figure is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. Without a `bar` it is only reported."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False
    """The bar is a floor, not a ceiling."""
    portable: bool = False
    """A ratio or a count: it must hold on any machine, so missing it fails the run."""
    note: str = ""

    @property
    def is_ok(self) -> bool:
        """True if the bar is met, or there is none. The figure is compared as it is printed, that is rounded."""
        if self.bar is None:
            return True
        shown = float(number(self.value).replace(",", ""))
        return shown >= self.bar if self.at_least else shown <= self.bar

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Group:
    """The figures of one benchmark on one database."""

    title: str
    figures: tuple[Figure, ...]
    database: str = ""

    @classmethod
    def of(cls, data: dict[str, Any]) -> Group:
        """Make a group from the parsed JSON of `to_json`."""
        return cls(data["title"], tuple(Figure(**figure) for figure in data["figures"]))

    def to_json(self) -> dict[str, Any]:
        return {"title": self.title, "figures": [figure.to_json() for figure in self.figures]}


def number(value: float) -> str:
    """Format a number with as many digits as its size justifies."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def verdict(figure: Figure) -> str:
    """Return `ok` or `over` (`under` if the bar is a floor); "" without a bar."""
    if figure.bar is None:
        return ""
    return "ok" if figure.is_ok else "under" if figure.at_least else "over"


def as_table(groups: Sequence[Group]) -> str:
    """Return all groups as one Markdown table, which is readable in a terminal, too."""
    rows = [("what", "figure", "bar", "", "note")]
    for group in groups:
        rows.append((f"**{group.title}** {group.database}", "", "", "", ""))
        rows += [_row(figure) for figure in group.figures]
    widths = [max(len(row[at]) for row in rows) for at in range(5)]
    lines = ["| " + " | ".join(_cells(row, widths)) + " |" for row in rows]
    rule = (
        "-" * widths[0],
        "-" * (widths[1] - 1) + ":",
        "-" * (widths[2] - 1) + ":",
        "-" * widths[3],
        "-" * widths[4],
    )
    lines.insert(1, "| " + " | ".join(rule) + " |")
    return "\n".join(lines)


def side_by_side(groups: Sequence[Group]) -> list[str]:
    """Return the rows of the groups of one benchmark as `| figure | SQLite | PostgreSQL | bar |`, without notes."""
    lines = []
    for name in dict.fromkeys(figure.name for group in groups for figure in group.figures):
        values, bar = [], ""
        for database in ("SQLite", "PostgreSQL"):
            found = [
                figure
                for group in groups
                for figure in group.figures
                if (group.database, figure.name) == (database, name)
            ]
            values.append(_row(found[0])[1] if found else "")
            bar = _row(found[0])[2] if found else bar
        lines.append("| " + " | ".join([name.strip(), *values, bar]) + " |")
    return lines


def missed(groups: Sequence[Group]) -> list[Figure]:
    """Return the figures that miss their bars."""
    return [figure for group in groups for figure in group.figures if not figure.is_ok]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Return the ratio of the medians of two series that were measured in turn."""
    return median(above) / median(below)


def _row(figure: Figure) -> tuple[str, str, str, str, str]:
    value = f"{number(figure.value)} {figure.unit}".strip()
    sign = "≥" if figure.at_least else "≤"
    bar = "" if figure.bar is None else f"{sign} {number(figure.bar)}"
    return figure.name, value, bar, verdict(figure), figure.note


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.rjust(width) if at in (1, 2) else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
