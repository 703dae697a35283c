"""The charts of the start page as bars to draw, and sentences about the figures of a period. Pure.

Rows come as values: one for each day and model variant, or day, kind and policy. A day without a row is zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from memory.usage.figures import short, usd

Row = Mapping[str, Any]

WIDTH, HEIGHT = 1000.0, 160.0
"""The size of a chart in its own units; it is stretched to the page."""
MAX_BAD_CARDS = 0.05
"""The largest acceptable share of unusable cards, of the replies that were to have one."""
FEWEST_CARDS = 20
"""The share is judged from this many cards on."""


class Bar(NamedTuple):
    """One bar of a chart, in its units, and what it says when pointed at."""

    x: float
    y: float
    width: float
    height: float
    series: int
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of some series by day, which are also shown as a table."""

    name: str
    title: str
    days: Sequence[date]
    series: Mapping[str, Sequence[int]]
    """The figures by the label of their series, one a day."""

    @property
    def highest(self) -> int:
        return max((max(figures, default=0) for figures in self.series.values()), default=0)

    @property
    def total(self) -> list[tuple[str, str]]:
        """The sum of each series, with its label."""
        return [(label, short(sum(figures))) for label, figures in self.series.items()]

    @property
    def bars(self) -> list[Bar]:
        """The bars of each day side by side, in the order of the series."""
        slot = WIDTH / max(1, len(self.days))
        width = slot * 0.84 / len(self.series)
        return [
            Bar(
                round(slot * at + slot * 0.08 + width * number, 2),
                round(HEIGHT - HEIGHT * figures[at] / self.highest, 2),
                round(width, 2),
                round(HEIGHT * figures[at] / self.highest, 2),
                number + 1,
                f"{_told(day)}: {short(figures[at])} {label}",
            )
            for at, day in enumerate(self.days)
            for number, (label, figures) in enumerate(self.series.items())
            if figures[at]
        ]

    @property
    def rows(self) -> list[tuple[str, list[str]]]:
        """The table: each day with its figures, newest first."""
        each = list(zip(*self.series.values(), strict=True))
        found = [
            (_told(day), list(map(short, figures))) for day, figures in zip(self.days, each, strict=True)
        ]
        return found[::-1]


def charts_of(days: Sequence[date], usage: Iterable[Row], folds: Iterable[Row]) -> list[Chart]:
    """The two charts of the start page."""
    usage, folds = list(usage), list(folds)
    return [
        Chart(
            "saved",
            "Tokens sent as memory, against whole chats",
            days,
            {
                "sent as memory": _by_day(days, usage, "memory_tokens"),
                "in whole chats": _by_day(days, usage, "history_tokens"),
            },
        ),
        Chart(
            "folds",
            "Summary updates a day",
            days,
            {
                "published": _by_day(days, folds, "folds"),
                "by the built-in summarizer": _by_day(days, folds, "degraded"),
                "failed attempts": _by_day(days, folds, "failures"),
            },
        ),
    ]


def _by_day(days: Sequence[date], rows: Iterable[Row], column: str) -> list[int]:
    sums = dict.fromkeys(days, 0)
    for row in rows:
        sums[row["day"]] += row[column]
    return list(sums.values())


def _told(day: date) -> str:
    return f"{day.day} {day:%b %Y}"


def sentences(usage: Sequence[Row], folds: Sequence[Row], *, with_cost: bool) -> list[str]:
    """What happened in the period: replies, what memory saved net of the summarizer, and what summaries kept."""

    def total(rows: Sequence[Row], *columns: str) -> Any:
        return sum(row[column] for row in rows for column in columns)

    tokens = ("input_tokens", "output_tokens")
    replies, failed = total(usage, "replies"), total(usage, "failed")
    spent, saved = total(folds, *tokens), total(usage, "saved_tokens")
    cost = total(usage, "cost_usd") + total(folds, "cost_usd")
    unpriced = total(usage, "billed") - total(usage, "priced")
    found = [
        f"{_count(replies, 'reply', 'replies')} with {short(total(usage, *tokens))} tokens, {failed:,} failed."
    ]
    if with_cost:
        unknown = f", without {_count(unpriced, 'reply', 'replies')} of unknown price" if unpriced else ""
        found.append(f"Cost: {usd(cost)}{unknown}, summary updates included.")
    if total(usage, "compared"):
        net = saved - spent
        than = f"{short(abs(net))} {'fewer' if net >= 0 else 'more'} than sending whole chats"
        found.append(f"Memory saved {short(saved)} tokens, and summary updates took {short(spent)}: {than}.")
        if net < 0:
            found.append("Short chats take more to summarize than they save; this reverses as they grow.")
    made = [row for row in folds if row["kind"] == "fold"]
    if count := total(made, "folds"):
        share, seconds = total(made, "share_sum") / count, total(made, "duration_ms") / count / 1000
        found.append(
            f"An update took {seconds:.1f} s on average, and kept {share:.0%} of names, numbers and dates; "
            "the messages keep all of them."
        )
    return found


def card_trouble(usage: Iterable[Row]) -> str:
    """The warning if too few replies have usable notes; "" if there is none."""
    usage = list(usage)
    cards, kept = (sum(row[column] for row in usage) for column in ("cards", "cards_kept"))
    bad = (cards - kept) / cards if cards else 0.0
    if cards < FEWEST_CARDS or bad <= MAX_BAD_CARDS:
        return ""
    return f"{bad:.1%} of {cards:,}, more than {MAX_BAD_CARDS:.0%}: choose another model or policy"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
