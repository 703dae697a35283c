"""A month of figures for screenshots of the overview: the days of a small product, the same in each run.

Runs as a process of its own, on the database that DATABASE_URL names, because a server is using it at the same time.
"""

import math
import random
from datetime import timedelta
from decimal import Decimal

DAYS = 30
PRICES = {"arco": (0.25, 2.0, 1.0), "arco-pro": (1.25, 10.0, 0.35), "deep-dive": (1.25, 10.0, 0.1)}
"""Of the default variants' models: USD per million tokens, in and out, and how much they are used."""


def fill() -> None:
    """Add figures for the `DAYS` days before today."""
    from django.utils import timezone

    from memory.models import FoldDay, RevisionKind, UsageDay

    chance = random.Random(7)
    today = timezone.now().date()
    for back in range(DAYS, 0, -1):
        day = today - timedelta(days=back)
        busy = (1 + 0.4 * math.sin((DAYS - back) / 5)) * (0.45 if day.weekday() >= 5 else 1)
        for variant, (price_in, price_out, share) in PRICES.items():
            replies = round(900 * busy * share * chance.uniform(0.85, 1.15))
            memory, history = replies * chance.randint(2300, 2700), replies * chance.randint(14_000, 19_000)
            read, written = memory + replies * 420, replies * chance.randint(230, 290)
            UsageDay.objects.create(
                day=day,
                model_variant=variant,
                failed=chance.randint(0, 3),
                **dict.fromkeys(("replies", "billed", "priced", "compared"), replies),
                input_tokens=read,
                cached_tokens=round(read * chance.uniform(0.45, 0.6)),
                output_tokens=written,
                cost_usd=Decimal(f"{(read * price_in + written * price_out) / 1e6:.6f}"),
                history_tokens=history,
                memory_tokens=memory,
                saved_tokens=history - memory,
            )
        folds = round(130 * busy * chance.uniform(0.8, 1.2))
        FoldDay.objects.create(
            day=day,
            kind=RevisionKind.FOLD,
            policy="chunked",
            folds=folds,
            turns=folds * 21,
            input_tokens=folds * 6500,
            output_tokens=folds * 480,
            cost_usd=Decimal(f"{folds * 0.00052:.6f}"),
            duration_ms=folds * chance.randint(3600, 5200),
            share_sum=folds * chance.uniform(0.68, 0.78),
            degraded=chance.choice((0, 0, 0, 1)),
            failures=chance.choice((0, 0, 1, 2)),
        )


if __name__ == "__main__":
    import django

    django.setup()
    fill()
