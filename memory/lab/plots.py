"""The outcome of the lab as one picture: memory over turns, retention over distance, and cost.

Needs matplotlib (the extra `lab`); uses only its objects, no global state. No information depends on colour.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from memory.lab.billing import Bill
from memory.lab.measures import Run
from memory.lab.outcome import Outcome
from memory.lab.retention import DISTANCES, Kept

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""The palette of Okabe and Ito, whose colours people with colour blindness can distinguish."""
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
GREY = "#555555"


class NoLibrary(Exception):
    """matplotlib is not installed. The message says how to install it."""


def draw(outcome: Outcome, path: Path, title: str = "") -> None:
    """Draw `outcome` to `path`, in the format of its suffix. Raises `NoLibrary`, `OSError`.

    The same outcome gives the same file.
    """
    try:
        import matplotlib  # an optional library, imported only here
    except ImportError:
        raise NoLibrary("matplotlib is not installed; `pip install matplotlib` brings it.") from None
    fixed: dict[Any, object] = {"svg.hashsalt": "chatmemory", "svg.fonttype": "none", "font.size": 9.0}
    with matplotlib.rc_context(fixed):
        figure = _figure(outcome, title)
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
        figure.savefig(path, dpi=150, metadata=metadata)


def _figure(outcome: Outcome, title: str) -> Figure:
    from matplotlib.figure import Figure  # as above

    policies = list(outcome.runs)
    has_facts = any(talk.facts for talk in outcome.talks)
    height = max(7.0, 1.6 * len(policies) + 1)
    figure = Figure(figsize=(12, height))
    figure.suptitle(title, x=0.06, y=1 - 0.15 / height, ha="left", va="top", fontsize=13, fontweight="bold")
    margins: dict[str, Any] = {"top": 1 - (0.95 if title else 0.6) / height, "bottom": 0.55 / height}
    left = figure.add_gridspec(len(policies), 1, left=0.06, right=0.52, hspace=0.45, **margins)
    margins["top"] -= 0.35 / height  # for the legend, which would hide lines inside a panel
    right = figure.add_gridspec(3 if has_facts else 2, 1, left=0.62, right=0.97, hspace=0.45, **margins)
    _memory(outcome, list(left.subplots(sharex=True, sharey=True, squeeze=False)[:, 0]))
    panels = right.subplots(squeeze=False)[:, 0]
    _kept(panels[0], outcome, "spans")
    panels[0].legend(
        fontsize=8, loc="lower left", bbox_to_anchor=(-0.02, 1.1), ncols=3, frameon=False, borderpad=0
    )
    if has_facts:
        _kept(panels[1], outcome, "facts")
    _costs(panels[-1], outcome)
    return figure


# Memory over turns: a panel for each policy, so that no line hides another


def _longest(outcome: Outcome) -> int:
    return max(range(len(outcome.talks)), key=lambda at: len(outcome.talks[at].exchanges))


def _memory_title(outcome: Outcome) -> str:
    talk = outcome.talks[_longest(outcome)]
    of = f"the longest talk, {talk.name}" if len(outcome.talks) > 1 else talk.name
    return f"Tokens of memory in each prompt ({of})"


def _memory(outcome: Outcome, panels: list[Axes]) -> None:
    chosen = _longest(outcome)
    for at, (policy, panel) in enumerate(zip(outcome.runs, panels, strict=True)):
        _memory_of(panel, policy, outcome.runs[policy][chosen], COLOURS[at % len(COLOURS)])
    panels[-1].set_xlabel("turn")
    panels[0].annotate(
        _memory_title(outcome),
        (0, 1),
        (0, 22),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=10,
    )


def _memory_of(panel: Axes, policy: str, run: Run, colour: str) -> None:
    turns = range(1, len(run.turns) + 1)
    tokens = [turn.memory for turn in run.turns]
    budget = run.turns[0].budget
    folds = [number for number, turn in zip(turns, run.turns, strict=True) if turn.folds]
    panel.fill_between(turns, tokens, step="mid", color=colour, alpha=0.25, linewidth=0)
    panel.step(turns, tokens, where="mid", color=colour, linewidth=1)
    panel.axhline(budget, color="black", linewidth=1, linestyle="--")
    panel.text(1, budget * 1.03, f"budget {budget:,}", fontsize=7, va="bottom")
    panel.plot(folds, [-budget * 0.07] * len(folds), "^", color="black", markersize=4, clip_on=False)
    panel.set_ylim(0, budget * 1.25)
    panel.set_xlim(0.5, len(run.turns) + 0.5)
    marked = (
        "1 fold ▲"
        if len(folds) == 1
        else f"{len(folds)} folds ▲"
        if folds
        else "the summarizer had nothing to do"
    )
    panel.set_title(f"{policy} · {marked}", loc="left", fontsize=9, fontweight="bold", pad=3)
    panel.tick_params(axis="x", length=0, pad=9)
    _plain(panel)


# Retention over distance


def _kept(panel: Axes, outcome: Outcome, what: str) -> None:
    looked_for: set[int] = set()
    for at, row in enumerate(outcome.rows):
        kept: Kept = getattr(row.summary, what)
        looked_for |= {distance for distance, tally in kept.items() if tally.asked}
        points = [(d, share * 100) for d in DISTANCES if (share := kept[d].share) is not None]
        panel.plot(
            [distance for distance, _ in points],
            [share for _, share in points],
            color=COLOURS[at % len(COLOURS)],
            marker=MARKERS[at % len(MARKERS)],
            linestyle=LINES[at % len(LINES)],
            label=row.summary.policy,
        )
    panel.set_xscale("log")
    ticks = sorted(looked_for) or [1]
    panel.set_xticks(ticks, labels=[str(distance) for distance in ticks])
    panel.minorticks_off()
    panel.set_ylim(0, 105)
    panel.set_xlabel("turns since it was last said")
    panel.set_ylabel("% still in memory")
    names = {"spans": "Numbers, names, dates and ids kept", "facts": "Annotated facts kept"}
    panel.set_title(names[what], loc="left", fontsize=10)
    _plain(panel)


# Cost


def _costs(panel: Axes, outcome: Outcome) -> None:
    bills = [(row.summary.policy, row.bill) for row in outcome.rows]
    bills += [("everything", outcome.everything), ("previous_\nresponse_id", outcome.chained)]
    known = [(name, bill) for name, bill in bills if bill.usd is not None]
    panel.set_title("Cost in USD: replies, and folds (hatched)", loc="left", fontsize=10)
    if not known:
        panel.text(0.5, 0.5, "no price is known of these models", ha="center", transform=panel.transAxes)
        panel.set_axis_off()
        return
    for at, (name, bill) in enumerate(known):
        _cost_of(panel, at, bill, COLOURS[at % len(COLOURS)] if name in outcome.runs else GREY)
    panel.set_yticks(range(len(known)), labels=[name for name, _ in known])
    panel.invert_yaxis()
    panel.set_xlim(0, max(float(bill.usd or 0) for _, bill in known) * 1.15 or 1)
    _plain(panel, grid="x")


def _cost_of(panel: Axes, at: int, bill: Bill, colour: str) -> None:
    replies, folds = float(bill.replies_usd or 0), float(bill.folds_usd or 0)
    panel.barh(at, replies, color=colour, alpha=0.7, label="replies")
    panel.barh(at, folds, left=replies, color="white", edgecolor=colour, hatch="////", label="folds")
    panel.text(replies + folds, at, f" {replies + folds:.3f}", va="center", fontsize=8)


def _plain(panel: Axes, grid: Literal["x", "y"] = "y") -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis=grid, linewidth=0.3)
    panel.set_axisbelow(True)
