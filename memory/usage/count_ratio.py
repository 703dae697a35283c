"""How many tokens a model's server bills for each that we count, kept by model variant from the replies it billed.

We count with one tokenizer, and guess what a model adds around messages and tools; another model's own count may be a
fifth more. What is reserved of a user's daily tokens is corrected by it, so that the reservation is near the bill.
"""

from __future__ import annotations

import time
from datetime import timedelta

from django.db.models import Sum

from memory.models import UsageDay
from memory.usage.daily import today

DAYS = 7
"""That it is taken from."""
LEAST_TOKENS = 20_000
"""Of our own count: with less, one odd prompt would be too much of it."""
LOWEST, HIGHEST = 0.5, 2.0
"""What is beyond is no other tokenizer but a server that tells something else."""
REMEMBERED_SECONDS = 300.0
"""For which a process goes by what it has read."""

_read: dict[str, tuple[float, float]] = {}
"""Until when it holds, and the ratio, by variant. One a process."""


def ratio_of(variant: str) -> float:
    """Tokens billed for each of ours; 1.0 where too little is known."""
    until, ratio = _read.get(variant, (0.0, 1.0))
    if time.monotonic() >= until:
        ratio = measured(variant)
        _read[variant] = time.monotonic() + REMEMBERED_SECONDS, ratio
    return ratio


def measured(variant: str) -> float:
    """The same, read now."""
    days = UsageDay.objects.filter(model_variant=variant, day__gt=today() - timedelta(days=DAYS))
    sums = days.aggregate(counted=Sum("counted_tokens"), billed=Sum("counted_billed"))
    counted, billed = sums["counted"] or 0, sums["billed"] or 0
    return min(HIGHEST, max(LOWEST, billed / counted)) if counted >= LEAST_TOKENS else 1.0
