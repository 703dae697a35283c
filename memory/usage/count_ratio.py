"""The ratio of tokens that a model's server bills to those that we count, by model variant, from billed replies.

We count with one tokenizer, and guess what a model adds around messages and tools; another model's own count may be a
fifth higher. Reservations of a user's daily tokens are corrected by this ratio, so that they are close to the bill.
"""

from __future__ import annotations

import time
from datetime import timedelta

from django.db.models import Sum

from memory.models import UsageDay
from memory.usage.daily import today

DAYS = 7
"""The number of days from which the ratio is taken."""
LEAST_TOKENS = 20_000
"""The least of our own count: with fewer tokens, a single odd prompt would weigh too much."""
LOWEST, HIGHEST = 0.5, 2.0
"""A ratio beyond these is not a difference of tokenizers but a server that reports something else."""
REMEMBERED_SECONDS = 300.0
"""How long a process uses a ratio that it has read."""

_read: dict[str, tuple[float, float]] = {}
"""Expiry and ratio, by variant. One per process."""


def ratio_of(variant: str) -> float:
    """Tokens billed per token of ours; 1.0 if too little is known."""
    until, ratio = _read.get(variant, (0.0, 1.0))
    if time.monotonic() >= until:
        ratio = measured(variant)
        _read[variant] = time.monotonic() + REMEMBERED_SECONDS, ratio
    return ratio


def measured(variant: str) -> float:
    """Compute the ratio from the table."""
    days = UsageDay.objects.filter(model_variant=variant, day__gt=today() - timedelta(days=DAYS))
    sums = days.aggregate(counted=Sum("counted_tokens"), billed=Sum("counted_billed"))
    counted, billed = sums["counted"] or 0, sums["billed"] or 0
    return min(HIGHEST, max(LOWEST, billed / counted)) if counted >= LEAST_TOKENS else 1.0
