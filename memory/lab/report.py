"""The outcome of the lab for people: one table, and one picture of the cost over turns. Pure.

The picture needs matplotlib (the extra `lab`). No information in it depends on colour.
"""

from itertools import accumulate
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from memory.lab.measures import Outcome, Row, everything
from memory.usage.figures import short

UNKNOWN = "?"
NOTHING = "–"
SUFFIXES = (".png", ".svg")

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""The palette of Okabe and Ito, whose colours people with colour blindness can distinguish."""
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
GREY = "#555555"

COLUMNS = {
    "policy": "the memory policy; `everything` sends all that was said, on each turn",
    "memory": "tokens of memory in a prompt, on average",
    "max": "tokens of memory in the largest prompt",
    "over": "prompts whose memory is over its budget",
    "coverage": "finished turns in the summary, a line or verbatim, in the prompt with the least of them",
    "cache": "share of prompt tokens that begin as one of the eight prompts before began",
    "input": "tokens sent for replies",
    "calls": "of the summarizer, failed ones included",
    "USD": "cost of replies and summarizer",
    "× all": "that, as times the cost of sending everything",
    "named": "how often a question repeats something that was said before",
    "held": "of these, in the memory of that question's prompt",
}
"""The columns of the table, and their meanings."""


def rows_of(outcome: Outcome) -> list[list[str]]:
    """The rows of the table, as text. The last one is for sending everything, which has no memory."""
    whole = outcome.everything_usd
    sent = sum(one.input_tokens for talk in outcome.talks for one in everything(talk))
    last = dict.fromkeys(COLUMNS, NOTHING) | {
        "policy": "everything",
        "input": short(sent),
        "USD": _usd(whole),
        "× all": _ratio(whole, whole),
    }
    return [*(_entries(row, whole) for row in outcome.rows), list(last.values())]


def _entries(row: Row, whole: float | None) -> list[str]:
    return [
        row.policy,
        f"{row.memory_mean:,.0f}",
        f"{row.memory_max:,}",
        _share(row.over_budget),
        _share(row.coverage),
        _share(row.cacheable),
        short(row.input_tokens),
        f"{row.calls:,}",
        _usd(row.usd),
        _ratio(row.usd, whole),
        f"{row.named:,}",
        _share(row.held),
    ]


def note_on(outcome: Outcome) -> str:
    """The note under a table: which models' prices it uses, and which summarizer ran."""
    replies, summarizer = outcome.replies, outcome.summarizer
    who = "the built-in model" if outcome.is_offline else summarizer.model
    note = (
        f"Replies are billed at the price of {replies.model}, the summarizer at that of {summarizer.model}; "
        f"{who} summarized."
    )
    unknown = {one.model for one in (replies, summarizer) if one.price is None}
    return f"{note} {UNKNOWN}: no price is known of {' and '.join(sorted(unknown))}." if unknown else note


def as_rich(outcome: Outcome) -> Group:
    """The table for a terminal, with the meanings of its columns below."""
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    legend = Table.grid(padding=(0, 2))
    for at, (name, meaning) in enumerate(COLUMNS.items()):
        drawn.add_column(name, justify="right" if at else "left", no_wrap=not at)
        legend.add_row(f"  {name}", meaning.replace("`", ""), style="dim")
    for row in rows_of(outcome):
        drawn.add_row(*map(escape, row))  # so that rich does not read brackets as markup
    return Group(drawn, legend, "")


def draw(outcome: Outcome, path: Path) -> None:
    """Draw what the longest talk has cost after each turn to `path`, in the format of its suffix.

    The same outcome gives the same file. Raises `OSError`, and `ImportError` without matplotlib.
    """
    import matplotlib  # an optional library, imported only here
    from matplotlib.figure import Figure

    at = max(range(len(outcome.talks)), key=lambda number: len(outcome.talks[number].exchanges))
    costs = {policy: outcome.costs(runs[at]) for policy, runs in outcome.runs.items()}
    if price := outcome.replies.price:
        costs["everything"] = [float(price.cost(one)) for one in everything(outcome.talks[at])]
    fixed: dict[Any, object] = {"svg.hashsalt": "chatmemory", "svg.fonttype": "none", "font.size": 9.0}
    with matplotlib.rc_context(fixed):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        panel = figure.subplots()
        panel.set_title(f"Cost so far in USD: {outcome.talks[at].name}", loc="left", fontsize=10)
        panel.set_xlabel("turn")
        for number, (way, spent) in enumerate(costs.items()):
            colour = COLOURS[number % len(COLOURS)] if way in outcome.runs else GREY
            line, so_far = LINES[number % len(LINES)], list(accumulate(spent or ()))
            panel.plot(range(1, len(so_far) + 1), so_far, color=colour, linestyle=line, label=way)
        panel.legend(frameon=False, title=None if price else "no price is known of these models")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", linewidth=0.3)
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
        figure.savefig(path, dpi=150, metadata=metadata)


def _share(value: float | None) -> str:
    """Format as percent; only exactly none or all is shown as 0 or 100."""
    if value is None:
        return NOTHING
    if value in (0, 1):
        return f"{value:.0%}".replace("%", " %")
    return f"{min(max(value * 100, 0.1), 99.9):.1f} %"


def _usd(amount: float | None) -> str:
    return UNKNOWN if amount is None else f"{amount:.4f}"


def _ratio(amount: float | None, of: float | None) -> str:
    return UNKNOWN if amount is None or not of else f"{amount / of:.2f}"
