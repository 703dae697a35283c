"""The charts of the start page as bars to draw, and sentences about the figures of a period. Pure.

Rows come as values: one for each day and model variant, or day, kind and policy. A day without a row is zero.
"""

from collections.abc import Mapping, Sequence
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


class Chart(NamedTuple):
    """A chart of some series by day, which are also shown as a table."""

    name: str
    title: str
    total: list[tuple[str, str]]
    """The label of each series, with its sum."""
    bars: list[Bar]
    """The bars of each day side by side, in the order of the series."""
    rows: list[tuple[str, list[str]]]
    """The table: each day with its figures, newest first."""


def charts_of(days: Sequence[date], usage: Sequence[Row], folds: Sequence[Row]) -> list[Chart]:
    """The two charts of the start page."""
    saved = {"sent as memory": (usage, "memory_tokens"), "in whole chats": (usage, "history_tokens")}
    updates = {
        "published": (folds, "folds"),
        "by the built-in summarizer": (folds, "degraded"),
        "failed attempts": (folds, "failures"),
    }
    return [
        _chart("saved", "Tokens sent as memory, against whole chats", days, saved),
        _chart("folds", "Summary updates a day", days, updates),
    ]


def _chart(
    name: str, title: str, days: Sequence[date], columns: Mapping[str, tuple[Sequence[Row], str]]
) -> Chart:
    """A chart of columns of rows by day, by the labels of their series."""
    series: dict[str, list[int]] = {}
    for label, (rows, column) in columns.items():
        sums = dict.fromkeys(days, 0)
        for row in rows:
            sums[row["day"]] += row[column]
        series[label] = list(sums.values())
    highest = max(map(max, series.values()))
    slot = WIDTH / len(days)
    width = slot * 0.84 / len(series)
    names = [f"{day.day} {day:%b %Y}" for day in days]
    bars = []
    for at, day in enumerate(names):
        for number, (label, figures) in enumerate(series.items()):
            if figure := figures[at]:
                x, height = slot * at + slot * 0.08 + width * number, HEIGHT * figure / highest
                y, text = HEIGHT - height, f"{day}: {short(figure)} {label}"
                bars.append(
                    Bar(round(x, 2), round(y, 2), round(width, 2), round(height, 2), number + 1, text)
                )
    table = [(day, list(map(short, figures))) for day, *figures in zip(names, *series.values(), strict=True)]
    total = [(label, short(sum(figures))) for label, figures in series.items()]
    return Chart(name, title, total, bars, table[::-1])


def sentences(usage: Sequence[Row], folds: Sequence[Row], *, with_cost: bool) -> list[str]:
    """What happened in the period: replies, what memory saved net of the summarizer, and what summaries kept."""

    def total(rows: Sequence[Row], *columns: str) -> Any:
        return sum(row[column] for row in rows for column in columns)

    tokens = ("input_tokens", "output_tokens")
    replies, failed = total(usage, "replies"), total(usage, "failed")
    spent, saved = total(folds, *tokens), total(usage, "saved_tokens")
    cost = total(usage, "cost_usd") + total(folds, "cost_usd")
    unpriced = total(usage, "billed") - total(usage, "priced")
    found = [f"{_replies(replies)} with {short(total(usage, *tokens))} tokens, {failed:,} failed."]
    if with_cost:
        unknown = f", without {_replies(unpriced)} of unknown price" if unpriced else ""
        found.append(f"Cost: {usd(cost)}{unknown}, summary updates included.")
    if total(usage, "compared"):
        net = saved - spent
        than = f"{short(abs(net))} {'fewer' if net >= 0 else 'more'} than sending whole chats"
        found.append(f"Memory saved {short(saved)} tokens, and summary updates took {short(spent)}: {than}.")
        if net < 0:
            found.append("Short chats take more to summarize than they save; this reverses as they grow.")
    updates = [row for row in folds if row["kind"] == "fold"]
    if count := total(updates, "folds"):
        share, seconds = total(updates, "share_sum") / count, total(updates, "duration_ms") / count / 1000
        found.append(
            f"An update took {seconds:.1f} s on average, and kept {share:.0%} of names, numbers and dates; "
            "the messages keep all of them."
        )
    return found


def card_trouble(usage: Sequence[Row]) -> str:
    """The warning if too few replies have usable notes; "" if there is none."""
    cards, kept = (sum(row[column] for row in usage) for column in ("cards", "cards_kept"))
    bad = (cards - kept) / cards if cards else 0.0
    if cards < FEWEST_CARDS or bad <= MAX_BAD_CARDS:
        return ""
    return f"{bad:.1%} of {cards:,}, more than {MAX_BAD_CARDS:.0%}: choose another model or policy"


def _replies(number: int) -> str:
    return "1 reply" if number == 1 else f"{number:,} replies"
