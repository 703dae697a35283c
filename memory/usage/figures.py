"""The figures of a day, summed over replies, and the formatting of numbers for people.

Pure: replies come as values, and the sums to add to a day's row are returned as values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

Number = int | Decimal


@dataclass(frozen=True, slots=True)
class CountedReply:
    """The usage of one reply. None: not reported, or of no known price."""

    day: date
    """The UTC day on which it ended."""
    variant: str
    failed: bool
    input_tokens: int | None
    cached_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    memory_tokens: int
    """Tokens of the memory that was sent."""
    history_tokens: int | None
    """Tokens of the whole chat before the question; None if unknown."""
    counted_tokens: int | None = None
    """Our own count of the whole prompt; None if the prompt is more than text."""
    card_kept: bool | None = None
    """Whether the requested memory card could be used; None if none was requested."""


def sums_of(replies: Iterable[CountedReply]) -> dict[tuple[date, str], dict[str, Number]]:
    """The sums that `replies` add to the row of each day and variant, by column name; sorted by key."""
    totals: dict[tuple[date, str], dict[str, Number]] = defaultdict(lambda: defaultdict(int))
    for reply in replies:
        row = totals[reply.day, reply.variant]
        for name, value in _parts(reply).items():
            row[name] += value
    return {key: dict(totals[key]) for key in sorted(totals)}


def days_until(last: date, count: int) -> list[date]:
    """The `count` days that end with `last`, oldest first."""
    return [last - timedelta(days=back) for back in range(count - 1, -1, -1)]


def short(number: float) -> str:
    """Format a number with about three digits: `1,234`, `12.3k`, `4.56M`."""
    if abs(number) < 9_999.5:
        return f"{number:,.0f}"
    size, unit = next(one for one in _UNITS if abs(number) >= 0.9995 * one[0])
    scaled = number / size
    digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    return f"{scaled:,.{digits}f}{unit}"


def usd(amount: Decimal | float) -> str:
    """Format an amount, with more decimals if it is small: `$12.34`, `$0.0123`."""
    value = float(amount)
    if value == 0:
        return "$0.00"
    if abs(value) >= 1:
        return f"${value:,.2f}"
    return f"${value:.6f}" if abs(value) < 0.001 else f"${value:.4f}"


def ago(seconds: float) -> str:
    """Format an age in one unit: `4 s`, `3 min`, `2 h`, `5 days`."""
    for size, unit in ((172_800, "days"), (7200, "h"), (120, "min")):
        if seconds >= size:
            return f"{seconds // _SECONDS[unit]:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


_UNITS = ((1e9, "B"), (1e6, "M"), (1e3, "k"))
_SECONDS = {"days": 86_400, "h": 3600, "min": 60}


def _parts(reply: CountedReply) -> Mapping[str, Number]:
    parts: dict[str, Number] = {"replies": 1, "failed": int(reply.failed)}
    if reply.input_tokens is not None:
        parts |= {
            "billed": 1,
            "input_tokens": reply.input_tokens,
            "cached_tokens": reply.cached_tokens,
            "output_tokens": reply.output_tokens,
        }
    if reply.input_tokens is not None and reply.counted_tokens is not None:
        parts |= {"counted_tokens": reply.counted_tokens, "counted_billed": reply.input_tokens}
    if reply.cost_usd is not None:
        parts |= {"priced": 1, "cost_usd": reply.cost_usd}
    if reply.card_kept is not None:
        parts |= {"cards": 1, "cards_kept": int(reply.card_kept)}
    if not reply.failed and reply.history_tokens is not None:
        parts |= {
            "compared": 1,
            "history_tokens": reply.history_tokens,
            "memory_tokens": reply.memory_tokens,
            "saved_tokens": max(0, reply.history_tokens - reply.memory_tokens),
        }
    return parts
