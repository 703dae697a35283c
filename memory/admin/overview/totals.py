"""Sums of daily figures over a period, in total and by model variant, formatted for people.

Pure: rows come as values, one for each day and model variant, or day, kind and policy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.usage.figures import short, usd

SUMMARIZER = "summarizer"
"""The name of folding beside the model variants."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the period."""

    replies: int
    failed: int
    tokens: int
    cost_usd: float
    unpriced: int
    """Billed replies without a known price."""
    history_tokens: int
    memory_tokens: int
    saved_tokens: int
    saved_usd: float
    compared: int
    """Replies for which it is known what memory saved."""
    fold_tokens: int
    fold_usd: float
    folds: int
    degraded: int
    failures: int
    fold_seconds: float | None
    """Mean duration of a fold; None if there was none. Rebuilds, which are many calls, are not included."""
    kept_share: float | None
    """Mean share of salient spans that folds kept; None if there were none."""
    cards: int
    """Replies whose prompt requested a memory card."""
    cards_kept: int

    @property
    def times_less(self) -> float | None:
        """How many times as many tokens would have been sent without memory."""
        return self.history_tokens / self.memory_tokens if self.memory_tokens else None

    @property
    def bad_cards(self) -> float | None:
        """The share of replies whose card could not be used; None if no card was requested."""
        return (self.cards - self.cards_kept) / self.cards if self.cards else None


def totals_of(usage: Sequence[Row], folds: Sequence[Row]) -> Totals:
    """Sum over all rows."""

    def add(rows: Sequence[Row], name: str) -> Any:
        return sum(row[name] for row in rows)

    made = of_kind(folds, "fold")
    count = add(made, "folds")
    return Totals(
        replies=add(usage, "replies"),
        failed=add(usage, "failed"),
        tokens=sum(map(tokens, (*usage, *folds))),
        cost_usd=float(add(usage, "cost_usd") + add(folds, "cost_usd")),
        unpriced=add(usage, "billed") - add(usage, "priced"),
        history_tokens=add(usage, "history_tokens"),
        memory_tokens=add(usage, "memory_tokens"),
        saved_tokens=add(usage, "saved_tokens"),
        saved_usd=float(add(usage, "saved_usd")),
        compared=add(usage, "compared"),
        fold_tokens=sum(map(tokens, folds)),
        fold_usd=float(add(folds, "cost_usd")),
        folds=add(folds, "folds"),
        degraded=add(folds, "degraded"),
        failures=add(folds, "failures"),
        fold_seconds=add(made, "duration_ms") / 1000 / count if count else None,
        kept_share=add(made, "share_sum") / count if count else None,
        cards=add(usage, "cards"),
        cards_kept=add(usage, "cards_kept"),
    )


@dataclass(frozen=True, slots=True)
class Line:
    """The sums of the period for a model variant, or for the summarizer, formatted for people."""

    variant: str
    replies: str
    failed: str
    sent: str
    """Input tokens."""
    from_cache: str
    """The percentage of them that came from the cache."""
    received: str
    cost: str
    ratio: str
    """Tokens billed per token of our own count."""


def lines_of(usage: Sequence[Row], folds: Sequence[Row]) -> list[Line]:
    """Sums by model variant, most tokens first, the summarizer last."""
    by_variant: dict[str, list[Row]] = defaultdict(list)
    for row in usage:
        by_variant[row["model_variant"]].append(row)
    variants = sorted(by_variant, key=lambda name: (-sum(map(tokens, by_variant[name])), name))
    lines = [_line(name, by_variant[name]) for name in variants]
    if any(row["folds"] for row in folds):
        folding = [{**row, "replies": row["folds"], "failed": row["failures"]} for row in folds]
        lines.append(_line(SUMMARIZER, folding))
    return lines


def _line(name: str, rows: Sequence[Row]) -> Line:
    sums = {key: sum(row.get(key, 0) for row in rows) for key in _OF_A_LINE}
    is_told = sums["input_tokens"] and name != SUMMARIZER
    is_priced = sums["priced"] or not sums["billed"]
    return Line(
        variant=name,
        replies=f"{sums['replies']:,}",
        failed=f"{sums['failed']:,}",
        sent=short(sums["input_tokens"]),
        from_cache=f"{sums['cached_tokens'] / sums['input_tokens']:.0%}" if is_told else "–",
        received=short(sums["output_tokens"]),
        cost=usd(sums["cost_usd"]) if is_priced else "not known",
        ratio=f"{sums['counted_billed'] / sums['counted_tokens']:.2f}" if sums["counted_tokens"] else "–",
    )


_OF_A_LINE = (
    *("replies", "failed", "input_tokens", "cached_tokens", "output_tokens"),
    *("billed", "priced", "cost_usd", "counted_tokens", "counted_billed"),
)


def of_kind(folds: Sequence[Row], kind: str) -> list[Row]:
    """The rows for one kind of work."""
    return [row for row in folds if row["kind"] == kind]


def tokens(row: Row) -> int:
    """Tokens sent and received."""
    return int(row["input_tokens"] + row["output_tokens"])
