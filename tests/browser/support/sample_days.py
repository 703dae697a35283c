"""A month of figures for screenshots of the overview: the days of a small product, the same in each run.

Runs as a process of its own, on the database that DATABASE_URL names, because a server is using it at the same time.
"""

from __future__ import annotations

import math
import random
from datetime import timedelta
from decimal import Decimal

DAYS = 30
PRICES = {"arco": (0.25, 2.0), "arco-pro": (1.25, 10.0), "deep-dive": (1.25, 10.0)}
"""USD per million tokens, in and out, of the default variants' models."""
SHARES = {"arco": 1.0, "arco-pro": 0.35, "deep-dive": 0.1}


def fill() -> None:
    """Add figures for the `DAYS` days before today."""
    from django.utils import timezone

    from memory.models import FoldDay, RevisionKind, UsageDay

    chance = random.Random(7)
    today = timezone.now().date()
    for back in range(DAYS, 0, -1):
        day = today - timedelta(days=back)
        busy = (1 + 0.4 * math.sin((DAYS - back) / 5)) * (0.45 if day.weekday() >= 5 else 1)
        for variant, share in SHARES.items():
            replies = round(900 * busy * share * chance.uniform(0.85, 1.15))
            UsageDay.objects.create(day=day, model_variant=variant, **_usage(replies, variant, chance))
        folds = round(130 * busy * chance.uniform(0.8, 1.2))
        FoldDay.objects.create(day=day, kind=RevisionKind.FOLD, policy="chunked", **_folds(folds, chance))


def _usage(replies: int, variant: str, chance: random.Random) -> dict[str, object]:
    price_in, price_out = PRICES[variant]
    memory = replies * chance.randint(2300, 2700)
    history = replies * chance.randint(14_000, 19_000)
    given, written = memory + replies * 420, replies * chance.randint(230, 290)
    return {
        "replies": replies,
        "failed": chance.randint(0, 3),
        "billed": replies,
        "input_tokens": given,
        "cached_tokens": round(given * chance.uniform(0.45, 0.6)),
        "output_tokens": written,
        "priced": replies,
        "cost_usd": Decimal(f"{(given * price_in + written * price_out) / 1e6:.6f}"),
        "compared": replies,
        "history_tokens": history,
        "memory_tokens": memory,
        "saved_tokens": history - memory,
    }


def _folds(folds: int, chance: random.Random) -> dict[str, object]:
    return {
        "folds": folds,
        "turns": folds * 21,
        "input_tokens": folds * 6500,
        "output_tokens": folds * 480,
        "cost_usd": Decimal(f"{folds * 0.00052:.6f}"),
        "duration_ms": folds * chance.randint(3600, 5200),
        "share_sum": folds * chance.uniform(0.68, 0.78),
        "degraded": chance.choice((0, 0, 0, 1)),
        "failures": chance.choice((0, 0, 1, 2)),
    }


if __name__ == "__main__":
    import django

    django.setup()
    fill()
