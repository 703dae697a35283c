"""The charts of the start page as bars to draw, and sentences about the figures of a period. Pure.

Rows come as values: one for each day and model variant, or day, kind and policy. A day without a row is zero.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from memory.usage.figures import counted, short, usd

Row = Mapping[str, Any]

HEIGHT = 100
"""The height of a chart in its own units; it is stretched to the page."""
MAX_BAD_CARDS = 0.05
"""The largest acceptable share of unusable cards, of the replies that were to have one."""
FEWEST_CARDS = 20
"""The share is judged from this many cards on."""


class Bar(NamedTuple):
    """One bar of a chart, one unit wide, with its tooltip."""

    x: int
    y: float
    height: float
    series: int
    text: str


class Chart(NamedTuple):
    """A chart of some series by day, which are also shown as a table."""

    title: str
    width: int
    total: list[tuple[str, str]]
    """The label of each series, with its sum."""
    bars: list[Bar]
    """The bars of each day side by side, in the order of the series, and a gap."""
    rows: list[tuple[str, list[str]]]
    """The table: each day with its figures, newest first."""


def charts_of(days: Sequence[date], usage: Sequence[Row], folds: Sequence[Row]) -> list[Chart]:
    """The two charts of the start page."""
    saved = {"memory_tokens": "sent as memory", "history_tokens": "in whole chats"}
    updates = {
        "folds": "published",
        "degraded": "by the built-in summarizer",
        "failures": "failed attempts",
    }
    return [
        _chart("Tokens sent as memory, against whole chats", days, usage, saved),
        _chart("Summary updates a day", days, folds, updates),
    ]


def _chart(title: str, days: Sequence[date], rows: Sequence[Row], series: Mapping[str, str]) -> Chart:
    """A chart of columns of `rows`: `series` are the labels by the columns' names."""
    table = [
        (f"{day.day} {day:%b %Y}", [sum(row[name] for row in rows if row["day"] == day) for name in series])
        for day in days
    ]
    highest = max(max(figures) for _, figures in table)
    slot = len(series) + 1
    bars = []
    for at, (day, figures) in enumerate(table):
        for number, (label, figure) in enumerate(zip(series.values(), figures, strict=True)):
            if figure:
                height = round(HEIGHT * figure / highest, 2)
                text = f"{day}: {short(figure)} {label}"
                bars.append(Bar(slot * at + number, HEIGHT - height, height, number + 1, text))
    sums = map(sum, zip(*(figures for _, figures in table), strict=True))
    total = list(zip(series.values(), map(short, sums), strict=True))
    shown = [(day, list(map(short, figures))) for day, figures in reversed(table)]
    return Chart(title, slot * len(days), total, bars, shown)


def sentences(usage: Sequence[Row], folds: Sequence[Row], *, with_cost: bool) -> list[str]:
    """The figures of the period: replies, memory's savings net of the summarizer, and the share that summaries kept."""

    def total(rows: Sequence[Row], *columns: str) -> Any:
        return sum(row[column] for row in rows for column in columns)

    tokens = ("input_tokens", "output_tokens")
    replies, failed = total(usage, "replies"), total(usage, "failed")
    spent, saved = total(folds, *tokens), total(usage, "saved_tokens")
    cost = total(usage, "cost_usd") + total(folds, "cost_usd")
    unpriced = max(0, replies - failed - total(usage, "priced"))
    found = [f"{counted(replies, 'reply', 'replies')} with {short(total(usage, *tokens))} tokens, {failed:,} failed."]
    if with_cost:
        unknown = f", without {counted(unpriced, 'reply', 'replies')} of unknown price" if unpriced else ""
        found.append(f"Cost: {usd(cost)}{unknown}, summary updates included.")
    if total(usage, "compared"):
        net = saved - spent
        which = f"Net {'saving' if net >= 0 else 'cost'} {short(abs(net))} tokens"
        found.append(f"{which} ({short(saved)} saved, {short(spent)} spent on summaries).")
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
